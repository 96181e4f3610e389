"""The second table of a study: what was measured inside the models, one row per number.

Long form, since not every arm has every monitor: study, arm, member, seed, step, monitor, layer, level, value. `layer`
is null where a number belongs to the whole model, `level` where it does not depend on the combination shown, `value`
where the number was not finite (a member that diverged).
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from recombine.studies import tidy

NAME = "monitors.parquet"

SCHEMA = pa.schema(
    [
        pa.field("study", pa.string(), nullable=False),
        pa.field("arm", pa.string(), nullable=False),
        pa.field("member", pa.int64(), nullable=False),
        pa.field("seed", pa.int64(), nullable=False),
        pa.field("step", pa.int64(), nullable=False),
        pa.field("monitor", pa.string(), nullable=False),
        pa.field("layer", pa.int64()),
        pa.field("level", pa.int64()),
        pa.field("value", pa.float64()),
    ]
)
OPTIONAL = {"layer", "level"}


class About(NamedTuple):
    """A monitor in words."""

    title: str
    sentence: str
    share: bool = False  # a share of something: between 0 and 1, shown in per cent
    least: float | None = None  # what the number cannot be below, and above
    most: float | None = None


ABOUT: dict[str, About] = {
    "rank_me": About(
        "RankMe",
        "How many dimensions a layer really uses to tell images apart, from 1 to the width: the exponential of the "
        "entropy of the singular values of its features less the mean of their position. Near 1, they have collapsed.",
        least=1,
    ),
    "spread": About(
        "Spread",
        "How much a layer's features differ from image to image at the same position: the standard deviation of a "
        "dimension, averaged over dimensions. 0 means that all images look the same to the layer.",
        least=0,
    ),
    "least_spread": About(
        "Least spread",
        "The standard deviation over images that a tenth of a layer's dimensions stay below. At 0, these dimensions "
        "are dead.",
        least=0,
    ),
    "mean_cosine": About(
        "Mean cosine",
        "How alike the directions of two images' features are in a layer, averaged over pairs. At 1, all point the "
        "same way.",
        least=-1,
        most=1,
    ),
    "linear_<factor>": About(
        "Read by a linear probe",
        "Share of fresh images whose factor a linear probe reads from a layer's features. The probe is fitted on "
        "trained combinations only; the images are of the level named.",
        share=True,
    ),
    "jepa_loss": About(
        "JEPA loss",
        "The loss of predicting the target features of hidden tokens, per layer. It is small after learning and "
        "after collapse alike: read it beside RankMe and the error over the mean.",
        least=0,
    ),
    "jepa_over_mean": About(
        "JEPA error over the mean",
        "Squared error of the predicted features over that of predicting each position's mean feature. 0 is perfect; "
        "1 is no better than the mean.",
        least=0,
    ),
    "held_out_nll": About(
        "Held-out negative log-likelihood",
        "How improbable the model finds fresh real images of a level, in nats per token: of whole images for "
        "autoregressive and causal models, an upper bound on that for discrete diffusion, and of hidden tokens given "
        "those shown for masked GIVT. Lower is better; compare only numbers of the same kind on the same tokens.",
    ),
    "scales_at_floor": About(
        "Scales at the floor",
        "Share of the mixture's standard deviations that lie at their lower bound. A large share means that the model "
        "memorises constants.",
        share=True,
    ),
    "guidance_refused": About(
        "Guidance refused",
        "Share of drawn token channels where the guided distribution does not exist or is far too wide, so that the "
        "plain one was drawn from.",
        share=True,
    ),
}
"""Every monitor, in the order to show them; the report and the documentation take their words from here."""

LINEAR = "linear_"


def family(monitor: str) -> str:
    """The key of ABOUT that a monitor falls under: itself, or `linear_<factor>`."""
    return f"{LINEAR}<factor>" if monitor.startswith(LINEAR) else monitor


def about(monitor: str) -> About:
    """A monitor in words; one that ABOUT does not know keeps its name."""
    return ABOUT.get(family(monitor), About(monitor, ""))


def write_monitors(folder: Path, rows: Iterable[Mapping[str, Any]]) -> Path:
    """Put the rows at their place in a study's folder, whole or not at all; without rows, an empty table.

    A row may leave out `layer` and `level`. Values that are not finite are written as null.
    """
    return tidy.write(Path(folder) / NAME, SCHEMA, rows, OPTIONAL, {"value"})


def read_monitors(folder: Path | str) -> pa.Table:
    """The monitors of a study; an empty table where none were taken."""
    return tidy.read(Path(folder) / NAME, SCHEMA)
