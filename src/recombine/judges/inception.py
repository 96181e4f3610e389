"""FID's own feature network, where somebody has put it: torch-fidelity's Inception with weights as safetensors.

Nothing is downloaded, and no pickle is read: the package must be installed, and INCEPTION in the environment must name
the weights (its file weights-inception-2015-12-05-6726825d.pth, saved once as safetensors).
"""

import os
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor

from recombine import files
from recombine.errors import UserError

INCEPTION = "RECOMBINE_INCEPTION"
AT_ONCE = 256  # images, each enlarged to 299 pixels a side

Network = Callable[[Tensor], Tensor]  # images (N, 3, P, P) in [0, 1] to features (N, D)


def inception(device: torch.device | str = "cpu") -> Network:
    """The features (N, 2048) that FID compares; UserError where the package or its weights are missing."""
    try:
        package: Any = import_module("torch_fidelity.feature_extractor_inceptionv3")
    except ImportError as error:
        raise UserError("FID needs the package torch-fidelity: pip install it, or set judging.fid to false.") from error
    named = os.environ.get(INCEPTION)
    if not named or not Path(named).is_file():
        raise UserError(
            f"FID needs the weights of torch-fidelity's Inception as a safetensors file, named by ${INCEPTION} "
            f"({named + ' is no file' if named else 'it is not set'}): name one, or set judging.fid to false."
        )
    tensors = files.load_tensors(Path(named), "cpu", f"save the weights again as safetensors and set ${INCEPTION}")
    # Built without weights the package downloads a pickle; ours stand in for what that call would give.
    with patch.object(package, "load_state_dict_from_url", lambda *_, **__: tensors):
        try:
            network = package.FeatureExtractorInceptionV3("inception", ["2048"])
        except RuntimeError as error:
            raise UserError(f"{named} does not hold the weights of torch-fidelity's Inception.") from error
    network.to(device)

    @torch.no_grad()
    def features(images: Tensor) -> Tensor:
        parts = [network((part * 255).round().to(torch.uint8))[0] for part in images.split(AT_ONCE)]
        return torch.cat(parts).float()

    return features
