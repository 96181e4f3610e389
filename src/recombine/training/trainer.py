"""One step for all members: choose a batch, loss, backward, clip, AdamW, EMA. No host work between steps.

Everything a step needs lives on the device, its number included, and every random choice is a function of (seed,
step). So the state below is the whole truth of a run: saved and loaded it goes on to the bit, and on a GPU the step is
replayed as one CUDA graph.
"""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from recombine.allocator import keep_memory
from recombine.generators import Generator
from recombine.nets import fused
from recombine.nets.averaging import move
from recombine.randomness import Draws, seeds_tensor
from recombine.training import ema
from recombine.training.flat import Flat, Trail, clip_scale
from recombine.training.settings import TrainingSettings

_EAGER_STEPS = 3  # real training steps taken before a CUDA graph is captured: they allocate what the graph will use


@dataclass(frozen=True)
class TrainingData:
    """The training images as a generator sees them, all on its device."""

    x: Tensor  # (N, T, C) latents or (N, T) ids
    spread: Tensor | None  # (N, T, C): posterior std of a VAE; a fresh latent is drawn at every visit
    cond: Tensor  # (N, W)

    def batch(self, draws: Draws, size: int) -> tuple[Tensor, Tensor]:
        """Each member's own choice of `size` images: tokens (M, B, ...) and conditions (M, B, W)."""
        index = draws.integers(len(self.x), size)
        x = self.x[index]
        if self.spread is not None:
            x = x + self.spread[index] * draws.normal(*x.shape[1:])
        return x, self.cond[index]


class Trainer:
    """The state of M members in training."""

    def __init__(self, generator: Generator, data: TrainingData, settings: TrainingSettings):
        self.generator = generator
        self.data = data
        self.settings = settings
        self.device = next(generator.parameters()).device
        if self.device.type == "cpu":
            keep_memory()
        generator.dtype = settings.dtype(self.device)
        weights = dict(generator.named_parameters())
        groups: dict[tuple[bool, float], dict[str, nn.Parameter]] = {}
        for name, weight in weights.items():
            decays = name.endswith("weight") and not name.startswith(generator.undecayed)
            key = name.startswith(generator.additions), settings.weight_decay if decays else 0.0
            groups.setdefault(key, {})[name] = weight
        # Products of bfloat16 activations take weights in bfloat16, which the update kernel writes beside the others.
        lowers = self.device.type == "cuda" and fused.HAVE and generator.dtype == torch.bfloat16
        self.flats = [Flat(some, decay, torch.bfloat16 if lowers else None) for (_, decay), some in groups.items()]
        clipped: dict[bool, list[Flat]] = {}  # together: the generator, and its additions
        for (addition, _), flat in zip(groups, self.flats, strict=True):
            clipped.setdefault(addition, []).append(flat)
        self.clipped = list(clipped.values())
        self.gamma = ema.power_of_width(settings.ema_width) if settings.ema_width is not None else None
        # Without averaging these are the weights themselves, in the same memory: no copy is kept, saved or loaded.
        self.average = [flat.weights if self.gamma is None else flat.weights.clone() for flat in self.flats]
        trailing = generator.trailing()
        parts = [{name: trailing[name] for name in flat.places if name in trailing} for flat in self.flats]
        self.trails = [Trail(flat, part) for flat, part in zip(self.flats, parts, strict=True) if part]
        # What changes in training but is not optimized: a JEPA's teacher. (Fixed tables are not persistent.)
        self.buffers = {name: t for name, t in generator.state_dict().items() if name not in weights}
        self.seeds = seeds_tensor(generator.seeds, self.device)
        self.step = torch.zeros((), dtype=torch.int64, device=self.device)
        self.loss_sum = torch.zeros(len(self.seeds), device=self.device)
        self.rate = torch.zeros((), device=self.device)
        self.steps_done = 0  # the host's copy of `step`, kept by counting: nothing is read back
        self._eager_left = _EAGER_STEPS  # of this process: a resumed run must warm up again
        self._graph: torch.cuda.CUDAGraph | None = None
        self.optimizer = torch.optim.AdamW(
            [{"params": [flat.weights], "weight_decay": flat.decay} for flat in self.flats],
            lr=self.rate,
            betas=(settings.beta1, settings.beta2),
            fused=True,
            capturable=self.device.type == "cuda",
        )
        for flat in self.flats:  # before the first step, so that saving and loading need no special case
            self.optimizer.state[flat.weights] = {
                "step": torch.zeros((), dtype=torch.float32, device=self.device),
                "exp_avg": torch.zeros_like(flat.weights),
                "exp_avg_sq": torch.zeros_like(flat.weights),
            }

    @property
    def averages(self) -> bool:
        """Whether there are averaged weights beside the raw ones."""
        return self.gamma is not None

    def run(self, steps: int) -> None:
        """Take `steps` steps; on a GPU nothing is waited for but the last."""
        for _ in range(steps):
            if self.device.type == "cuda" and self._eager_left == 0:
                self._replay()
            else:
                self._one_step()
                self._eager_left = max(self._eager_left - 1, 0)
            self.steps_done += 1
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)  # so that progress bars and clocks tell the truth

    def _one_step(self) -> None:
        settings = self.settings
        draws = Draws(self.seeds, "training", self.step)
        x, cond = self.data.batch(draws, settings.batch)
        losses = self.generator.loss(x, cond, draws)  # (M,)
        # Summed, never averaged over members: each member's gradient is that of its solo run.
        losses.sum().backward()
        self.step += 1
        self.rate.copy_(rate_at(self.step, settings))
        self._update()
        for trail in self.trails:
            trail.move(self.generator.momentum(self.step / settings.steps))
        self.loss_sum += losses.detach()

    @torch.no_grad()
    def _update(self) -> None:
        """Clip, AdamW, average; afterwards the gradients are ready for the next step."""
        kept = None if self.gamma is None else ema.decay(self.step, self.gamma)
        scales = {
            id(flat): scale
            for flats in self.clipped
            for scale in [clip_scale([flat.gradients for flat in flats], self.settings.clip)]
            for flat in flats
        }
        if self.device.type == "cuda" and fused.HAVE:
            from recombine.nets.fused.update import adamw, step_numbers

            betas = self.settings.beta1, self.settings.beta2
            numbers = step_numbers(self.step, self.rate, betas, kept)
            for flat, average in zip(self.flats, self.average, strict=True):
                moments = self.optimizer.state[flat.weights]
                pair = moments["exp_avg"], moments["exp_avg_sq"]
                other = average if self.averages else None
                adamw(flat.weights, flat.gradients, pair, other, flat.low, scales[id(flat)], numbers, flat.decay, betas)
                flat.clear()
            return
        for flat in self.flats:
            flat.gradients.mul_(scales[id(flat)][:, None])
        self.optimizer.step()
        for flat in self.flats:
            flat.clear()
        if kept is not None:
            move(self.average, [flat.weights for flat in self.flats], kept)

    def _replay(self) -> None:
        if self._graph is None:
            torch.cuda.synchronize(self.device)
            self._graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self._graph):
                self._one_step()
        self._graph.replay()

    def take_mean_loss(self, steps: int) -> list[float]:
        """Mean loss of each member over the last `steps` steps, since this was last asked; starts the sum anew."""
        mean = (self.loss_sum / max(steps, 1)).tolist()
        self.loss_sum.zero_()
        return mean

    @contextmanager
    def averaged(self) -> Iterator[None]:
        """Inside, the generator has its averaged (EMA) weights, if it has any; outside, its own again."""
        if self.gamma is None:
            yield
            return
        own = [flat.weights.clone() for flat in self.flats]
        for flat, average in zip(self.flats, self.average, strict=True):
            flat.set(average)
        try:
            yield
        finally:
            for flat, weights in zip(self.flats, own, strict=True):
                flat.set(weights)

    def _named(self) -> dict[str, Tensor]:
        """What there is for every weight, by name."""
        tensors: dict[str, Tensor] = {}
        for flat, average in zip(self.flats, self.average, strict=True):
            moments = self.optimizer.state[flat.weights]
            kinds = {"weight": flat.weights, "first": moments["exp_avg"], "second": moments["exp_avg_sq"]}
            for kind, whole in (kinds | ({"average": average} if self.averages else {})).items():
                tensors |= {f"{kind}.{name}": tensor for name, tensor in flat.views(whole).items()}
        return tensors

    def state(self) -> dict[str, Tensor]:
        """Everything needed to go on, by name."""
        tensors = {"step": self.step, "loss_sum": self.loss_sum}
        tensors |= {f"buffer.{name}": tensor for name, tensor in self.buffers.items()}
        return {name: tensor.contiguous() for name, tensor in (tensors | self._named()).items()}

    @torch.no_grad()
    def load(self, tensors: dict[str, Tensor]) -> None:
        """Go on from a saved state, in place (a captured graph stays valid)."""
        self.step.copy_(tensors["step"])
        self.loss_sum.copy_(tensors["loss_sum"])
        self.steps_done = int(tensors["step"])
        for name, buffer in self.buffers.items():
            buffer.copy_(tensors[f"buffer.{name}"])
        for trail in self.trails:
            trail.refresh()
        for name, tensor in self._named().items():
            tensor.copy_(tensors[name])
        for flat in self.flats:
            flat.set(flat.weights)
            self.optimizer.state[flat.weights]["step"].fill_(self.steps_done)


def rate_at(step: Tensor, settings: TrainingSettings) -> Tensor:
    """The learning rate of step 1, 2, …: a linear rise over the warm-up, then constant, or a cosine or a line to 0."""
    done = step.to(torch.float32)
    rate = settings.peak_rate * (done / max(settings.warmup, 1)).clamp(max=1)
    share = ((done - settings.warmup) / max(settings.steps - settings.warmup, 1)).clamp(0, 1)  # of what follows it
    if settings.schedule == "cosine":
        rate = rate * 0.5 * (1 + torch.cos(math.pi * share))
    elif settings.schedule == "linear":
        rate = rate * (1 - share)
    return rate
