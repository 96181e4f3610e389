"""A labelled sheet of a world's compositions: what a newcomer looks at first."""

import itertools
import math
from pathlib import Path

from recombine.worlds.base import World, make_images

MOST = 64  # compositions shown; of larger worlds an even choice
EXAMPLES = 3  # images of each composition: the middle of its ranges first, then with free variation


def draw_sheet(world: World, path: Path | str) -> None:
    """Write a picture of (up to 64 of) the world's compositions with their codes and the names of their values."""
    # Drawn on a bare Figure, not pyplot: no global state, and no display is asked for.
    import torch
    from matplotlib.figure import Figure

    compositions = list(itertools.product(*(range(len(factor.values)) for factor in world.factors)))
    total = len(compositions)
    if total > MOST:
        compositions = [compositions[i * total // MOST] for i in range(MOST)]
    varied = make_images(world, compositions, EXAMPLES - 1, seed=0, purpose="sheet").images
    middle = world.render(world.canonical(torch.tensor(compositions)))
    columns = min(4 if len(compositions) <= 16 else 8, len(compositions))
    rows = math.ceil(len(compositions) / columns)
    figure = Figure(figsize=(2.6 * columns, 1.35 * rows + 0.6), layout="constrained")
    shown = f", {len(compositions)} of {total} shown" if total > len(compositions) else ""
    factors = " × ".join(f"{factor.name} ({len(factor.values)})" for factor in world.factors)
    figure.suptitle(f"{world.name}: {factors}, {world.image_size}×{world.image_size} pixels{shown}")
    axes = figure.subplots(rows, columns, squeeze=False)
    for axis in axes.flat:
        axis.set_axis_off()
    for i, (axis, composition) in enumerate(zip(axes.flat, compositions, strict=False)):
        strip = torch.cat([middle[i], *varied[i * (EXAMPLES - 1) : (i + 1) * (EXAMPLES - 1)]], dim=2)  # (3, P, 3P)
        axis.imshow(strip.permute(1, 2, 0).numpy(), interpolation="nearest", cmap="gray", vmin=0, vmax=1)
        for edge in range(EXAMPLES + 1):  # frames, since images are white at their rim
            axis.axvline(edge * world.image_size - 0.5, color="0.6", linewidth=0.5, clip_on=False)
        for edge in (0, world.image_size):
            axis.axhline(edge - 0.5, color="0.6", linewidth=0.5, clip_on=False)
        digits = "0123456789abcdefghijklmnopqrstuvwxyz"
        code = "".join(digits[value] if value < len(digits) else "" for value in composition)
        names = " ".join(factor.values[value] for factor, value in zip(world.factors, composition, strict=True))
        axis.set_title(f"{code}  {names}", fontsize=8)
    figure.savefig(path, dpi=130)
