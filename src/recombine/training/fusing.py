"""Compiling what lies between matrix products into few kernels, where that is possible."""

import os
from collections.abc import Callable
from typing import Any

import torch
from torch.utils._triton import has_triton

from recombine.progress import say

OFF = "RECOMBINE_COMPILE"  # set to 0, nothing is compiled


def fused(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same function, compiled for its first arguments' shapes; as it is where it cannot be compiled.

    Compiled code of earlier trainers is dropped: torch keeps only a few versions per function, and would silently run
    the rest uncompiled. Its cache on disk makes compiling the same again quick.
    """
    if os.environ.get(OFF, "1") == "0" or not has_triton():
        return function
    torch._dynamo.reset_code_caches()
    compiled = torch.compile(function, dynamic=False)
    failed = False

    def call(*args: Any) -> Any:
        nonlocal failed
        if not failed:
            try:
                return compiled(*args)
            except Exception as error:  # whatever the compiler's many parts may raise
                if not type(error).__module__.startswith(("torch._dynamo", "torch._inductor")):
                    raise
                failed = True
                say(f"note: torch could not compile this arm ({type(error).__name__}), so it runs slower")
        return function(*args)

    return call
