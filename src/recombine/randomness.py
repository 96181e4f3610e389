"""Random numbers as a pure function of (seed, purpose, step, position).

There is no generator state anywhere: the numbers a member uses at step 1000 follow from its seed and 1000 alone. So a
resumed run equals an unbroken one, member i of many equals the solo run of seed i, and the draws can be captured in a
CUDA graph (the step is a tensor on the device; nothing is asked of the host).

Each number is splitmix64 (Steele, Lea, Flood 2014) of key + position, the key itself hashed from seed, purpose, step
and the number of the call. Integer arithmetic is exact, so a CPU and a GPU draw the same uniforms and integers.
"""

import hashlib
import math

import torch
from torch import Tensor


def _signed(value: int) -> int:
    """The 64-bit pattern of `value` as the signed integer torch stores."""
    value &= (1 << 64) - 1
    return value - (1 << 64) if value >= 1 << 63 else value


_GOLDEN = _signed(0x9E3779B97F4A7C15)
_MIX_1 = _signed(0xBF58476D1CE4E5B9)
_MIX_2 = _signed(0x94D049BB133111EB)


def _shift_right(x: Tensor, bits: int) -> Tensor:
    """Logical shift: torch's own >> copies the sign bit, so the copies are masked off."""
    return (x >> bits) & ((1 << (64 - bits)) - 1)


def _splitmix(x: Tensor) -> Tensor:
    """The finalizer of splitmix64 on int64 tensors (products wrap modulo 2^64)."""
    x = (x ^ _shift_right(x, 30)) * _MIX_1
    x = (x ^ _shift_right(x, 27)) * _MIX_2
    return x ^ _shift_right(x, 31)


def _name_hash(purpose: str) -> int:
    """A stable 63-bit number for a purpose (Python's own hash() changes between runs)."""
    return int.from_bytes(hashlib.sha256(purpose.encode()).digest()[:8], "little") >> 1


class Draws:
    """The random numbers of M members at one step, for one purpose.

    Every method returns a tensor with a leading member axis. Successive calls on one object are independent; the same
    calls on a new object with equal (seeds, purpose, step) return the same numbers.
    """

    def __init__(self, seeds: Tensor, purpose: str, step: int | Tensor = 0):
        key = _splitmix(seeds.to(torch.int64) * _GOLDEN + _name_hash(purpose))
        offset = step * _GOLDEN if isinstance(step, Tensor) else _signed(step * _GOLDEN)
        self._key = _splitmix(key + offset)  # (M,)
        self._calls = 0

    def _bits(self, shape: tuple[int, ...]) -> Tensor:
        """Fresh 64-bit patterns, (M, *shape)."""
        self._calls += 1
        key = _splitmix(self._key + _signed(self._calls * _MIX_2))
        count = math.prod(shape)
        position = torch.arange(count, device=key.device, dtype=torch.int64)
        bits = _splitmix(key[:, None] + (position + 1)[None] * _GOLDEN)
        return bits.view(len(key), *shape)

    def uniform(self, *shape: int) -> Tensor:
        """U[0, 1) with 24 bits, (M, *shape)."""
        return _shift_right(self._bits(shape), 40).to(torch.float32) * 2.0**-24

    def normal(self, *shape: int) -> Tensor:
        """N(0, 1) by Box and Muller, both of a pair used, (M, *shape)."""
        count = math.prod(shape)
        bits = self._bits(((count + 1) // 2,))
        radius = (_shift_right(bits, 40).to(torch.float32) + 0.5) * 2.0**-24  # never 0: log stays finite
        angle = (bits & 0xFFFFFF).to(torch.float32) * (2.0**-24 * 2.0 * math.pi)
        radius = torch.sqrt(-2.0 * torch.log(radius))
        pair = torch.cat([radius * torch.cos(angle), radius * torch.sin(angle)], dim=1)
        return pair[:, :count].reshape(len(bits), *shape)

    def integers(self, high: int, *shape: int) -> Tensor:
        """Whole numbers 0..high-1, (M, *shape). The bias, high / 2^62, is beyond measuring."""
        return _shift_right(self._bits(shape), 2) % high


def seeds_tensor(seeds: list[int] | tuple[int, ...], device: torch.device | str = "cpu") -> Tensor:
    """The (M,) tensor that Draws takes."""
    return torch.tensor(list(seeds), dtype=torch.int64, device=device)
