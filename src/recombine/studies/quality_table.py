"""The table of quality, `quality.parquet` in a study's folder: one number per member, metric and composition or level.

The columns are the same whether or not anything was measured: study, arm, member, seed, step, level, composition,
metric, value, real, rebuilt, n. `composition` is null where a number belongs to a whole level. Beside each `value`
stand the numbers that as many fresh images get in the place of samples: `real`, drawn by the world, and `rebuilt`,
such images after the arm's tokenizer. `n` is the number of samples of each composition.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from recombine.studies import tidy

NAME = "quality.parquet"

SCHEMA = pa.schema(
    [
        pa.field("study", pa.string(), nullable=False),
        pa.field("arm", pa.string(), nullable=False),
        pa.field("member", pa.int64(), nullable=False),
        pa.field("seed", pa.int64(), nullable=False),
        pa.field("step", pa.int64(), nullable=False),
        pa.field("level", pa.int64(), nullable=False),
        pa.field("composition", pa.string()),
        pa.field("metric", pa.string(), nullable=False),
        pa.field("value", pa.float64()),
        pa.field("real", pa.float64()),
        pa.field("rebuilt", pa.float64()),
        pa.field("n", pa.int64(), nullable=False),
    ]
)


class About(NamedTuple):
    """A metric in words."""

    title: str
    sentence: str
    share: bool = False  # a share of something: between 0 and 1, shown in per cent
    better: str = ""  # "low" or "high", where that is so by itself


ABOUT: dict[str, About] = {
    "frechet": About(
        "Fréchet distance",
        "Between samples and real images in the probe's features (as FID, with our probe for Inception), over the "
        "variance of real images of all combinations. Of a level: all its combinations taken together, so that a "
        "wrong combination of the same level is not seen. Finite samples alone make it larger: read it beside that "
        "of as many real images.",
        better="low",
    ),
    "fid": About(
        "FID",
        "The same in the features of Inception (Heusel et al. 2017), which was trained on photographs; of whole "
        "levels only, and only where asked for. Values of few images are far above published ones: read it beside "
        "that of real images.",
        better="low",
    ),
    "precision": About(
        "Precision",
        "Share of samples that lie among real images of the combination asked for, in the probe's features (within the "
        "reach of a real image's third neighbour).",
        share=True,
        better="high",
    ),
    "recall": About(
        "Recall",
        "Share of real images of the combination that lie among the samples in the same sense: low where a model draws "
        "only a part of what there is.",
        share=True,
        better="high",
    ),
    "density": About(
        "Density",
        "How many real images' neighbourhoods (to the fifth neighbour) a sample lies in, over 5. Near 1 for real "
        "images; more where samples crowd in the middle, 0 far away.",
    ),
    "coverage": About(
        "Coverage",
        "Share of real images with a sample in their neighbourhood (to the fifth neighbour); steadier than recall, "
        "which stray samples raise.",
        share=True,
        better="high",
    ),
    "diversity": About(
        "Diversity",
        "Mean distance of two samples of the same combination in the probe's features, over that of two real "
        "images. Below 1, samples are too alike; garbage is diverse too, so read it beside precision.",
    ),
    "diversity_pixels": About(
        "Diversity of pixels",
        "The same in pixels, where the free position counts more than in the probe's features.",
    ),
    "nearest": About(
        "Distance to training",
        "Median distance in pixels to the nearest training image, over that of fresh images of trained "
        "combinations. Near 1 for a model that draws like the data; towards 0 for copies; of combinations never "
        "trained on it should be above.",
    ),
    "copied": About(
        "Copied",
        "Share of samples nearer to a training image than all but 1 % of fresh images of trained combinations are. "
        "More than fresh images have means copying. Training and fresh images are compared as the tokenizer redraws "
        "them.",
        share=True,
    ),
}
"""Every metric, in the order to show them; the report and the documentation take their words from here."""


def write_quality(folder: Path, rows: Iterable[Mapping[str, Any]]) -> Path:
    """Put the rows at their place in a study's folder, whole or not at all; without rows, an empty table."""
    return tidy.write(Path(folder) / NAME, SCHEMA, rows, {"composition"}, {"value", "real", "rebuilt"})


def read_quality(folder: Path | str) -> pa.Table:
    """The table of quality of a study; an empty one where it was not measured."""
    return tidy.read(Path(folder) / NAME, SCHEMA)
