"""How much slower one of two programs on the same cores is, by how its threads wait: python benchmarks/waiting.py

A few operations as a training step of size xs has them, forward and backward, alone and twice at once; with threads
that spin while they wait (what GNU's OpenMP does by itself), with threads that do not, and mixed. Prints milliseconds.
"""

import os
import subprocess
import sys

STEP = """
import time, torch
torch.manual_seed(0)
weights = [torch.randn(4, 64, 64, requires_grad=True) for _ in range(8)]
x = torch.randn(4, 2304, 64)
def step():
    h = x
    for w in weights:
        h = h + torch.nn.functional.gelu(torch.bmm(torch.nn.functional.layer_norm(h, (64,)), w))
    h.square().mean().backward()
for _ in range(5):
    step()
start, done = time.perf_counter(), 0
while time.perf_counter() - start < 15:
    step()
    done += 1
print(f"{1e3 * (time.perf_counter() - start) / done:.1f}")
"""
SPIN: dict[str, str] = {}
PASSIVE = {"OMP_WAIT_POLICY": "PASSIVE"}


def measured(*settings: dict[str, str]) -> list[str]:
    """Milliseconds a step of as many processes at once."""
    kept = {key: value for key, value in os.environ.items() if key not in ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")}
    begun = [
        subprocess.Popen([sys.executable, "-c", STEP], env=kept | own, stdout=subprocess.PIPE, text=True)
        for own in settings
    ]
    return [one.communicate()[0].strip() for one in begun]


if __name__ == "__main__":
    print(f"{os.cpu_count()} cores, milliseconds a step")
    print("alone, spinning       ", *measured(SPIN))
    print("alone, not spinning   ", *measured(PASSIVE))
    print("two, both spinning    ", *measured(SPIN, SPIN))
    print("two, the second is not", *measured(SPIN, PASSIVE))
    print("two, neither spins    ", *measured(PASSIVE, PASSIVE))
