"""What is measured of the samples of a generator that stands in place of a decoder.

The same measures as of a decoder's pictures, under the same names, so that both stand in one column. There is more than
one way to read them where a cell is drawn n times, and they answer different questions:

- layer "picture": every sample by itself. Superposition here means that single pictures show several memories at once.
- layer "mean picture": the mean over the samples of a cell, which is what a decoder trained with squared error would be
  asked for. A generator that draws one memory at a time, now this one and now that, is superposed here alone.
- sample_spread: the mean squared distance of samples from the mean of their cell, relative to a blank image's error.
  The error of samples is that of their mean plus this. (Of few samples the mean is uncertain; it is not corrected.)

Factorization is that of the mean picture, by differences between cells (`measure_grid`); what is left of the samples'
noise in the mean counts as movement.

Shapes: M members, C cells, n samples of a cell, P pixels.
"""

from dataclasses import replace

from torch import Tensor

from recombine.anatomy.measures import (
    PICTURE,
    Maps,
    Measured,
    measure_gap,
    measure_grid,
    measure_judged,
    measure_pictures,
    regions_of,
)
from recombine.curated import Plane
from recombine.judges.plane import Judged

MEAN = "mean picture"


def measure_samples(samples: Tensor, judged: Judged, plane: Plane, inside: bool = True) -> tuple[list[Measured], Maps]:
    """Everything measured of samples (M, C, n, P, P) from 0 to 1; with `inside` their factorization too. Maps are the
    mean over the samples of a cell."""
    found, maps = measure_judged(judged, plane), Maps()
    count = samples.shape[2]
    each, mean = samples.flatten(3), samples.mean(2).flatten(2)  # (M, C, n, P), (M, C, P)
    truths = plane.images.flatten(1)
    spread = (each - mean[:, :, None]).square().mean((2, 3))  # (M, C)
    for region, where in regions_of(plane).items():
        relative = spread[:, where].mean(1) / plane.blank[where].mean()
        found.append(Measured(PICTURE, "sample_spread", region, relative))
    if plane.cells.shape[1] == 1:  # the edges of a gap are single cells: their mean pictures are the memory
        gap = measure_gap(mean, truths, plane.cells[:, 0], plane.trained, plane.depth, maps)
        return found + [replace(one, layer=MEAN) for one in gap], maps
    cells, trained, real = (part.repeat_interleave(count, 0) for part in (plane.cells, plane.trained, truths))
    found += measure_pictures(each.flatten(1, 2), real, cells, trained, regression=False, keep=maps)
    # (M, K * n) to (M, K). All samples of a cell have one depth.
    maps = {key: values.unflatten(-1, (-1, count)).nanmean(-1) for key, values in maps.items()}
    whole = measure_pictures(mean, truths, plane.cells, plane.trained, regression=False)
    found += [replace(one, layer=MEAN) for one in whole]
    return found + (measure_grid(mean, plane) if inside else []), maps
