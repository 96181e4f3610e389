"""The parts of a block between its matrix products, each as one GPU kernel forward and one backward; and the update.

torch's own operations read and write the activations once for every sum and product; these do so once in all. They are
used in bfloat16 on a GPU; elsewhere, and in float32, `backbone.py` and `token_head.py` have the same in torch's
operations. No step is compiled, so a run starts at once.
"""

import torch
from torch import Tensor

try:
    import triton  # noqa: F401

    HAVE = True
except ImportError:  # torch's CPU build comes without it
    HAVE = False


def suits(x: Tensor) -> bool:
    """Whether the kernels can work on x."""
    return HAVE and x.is_cuda and x.dtype == torch.bfloat16
