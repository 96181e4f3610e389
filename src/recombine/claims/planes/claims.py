"""F1 to F9, the claims of the forced-rendering study (arXiv 2501.18797). The functions are in `judges`.

`value` is None where no published number is of the same measure as ours.
"""

from recombine.claims.planes.judges import THRESHOLDS, judge_of
from recombine.claims.verdicts import Claim, Unit

PLAIN, REMEDIES = ("rendering",), ("rendering-remedies",)


def _claim(
    id: str,
    title: str,
    statement: str,
    published: str,
    trust: str,
    studies: tuple[str, ...],
    measure: str,
    value: float | None = None,
    unit: Unit = "points",
) -> Claim:
    return Claim(
        id=id,
        title=title,
        statement=statement,
        published=published,
        trust=trust,
        studies=studies,
        measure=measure,
        value=value,
        unit=unit,
        judge=judge_of(id),
        thresholds=THRESHOLDS[id],
    )


CLAIMS = (
    _claim(
        "F1",
        "Standard decoders fail outside",
        "Standard decoders fit the trained region and fail in the held-out one.",
        "CNN on a bump code: squared error 5.6e-5 inside, 3.4e-3 outside (a blank image 4.0e-3), peak in place in "
        "29 % of held-out cells",
        "measured again, one seed; authors' saved output",
        PLAIN,
        "share of bumps that the CNN puts in place, inside minus outside",
        value=0.709,
    ),
    _claim(
        "F2",
        "Superposition",
        "Outside, the output is a superposition of memorised training outputs.",
        "Cosine 0.67 with the mean of training outputs that share x or y, 0.33 with the true image; at least 2 pixels "
        "inside the hole 0.84 and 0.05",
        "measured again, one seed, with a metric that is not the authors'",
        PLAIN,
        "cosine of the CNN's output with its memory minus that with the true image, deep in the hole",
        value=0.796,
        unit="cosine",
    ),
    _claim(
        "F3",
        "Factorized kernels",
        "Learned kernels look factorized and binary.",
        "No number from the authors",
        "the authors' test is degenerate",
        PLAIN,
        "R² of the best factorized kernel minus that of the best other, mean over the CNN's hidden layers",
        unit="R²",
    ),
    _claim(
        "F4",
        "Collapsed manifold",
        "Later layers entangle the latents again, and local volume shrinks outside.",
        "log10 of the volume at the output: −0.93 outside, −0.06 inside",
        "measured again, one seed, by differences between cells",
        PLAIN,
        "log10 of the output's volume outside minus inside, minus the same of true images",
        unit="log10",
    ),
    _claim(
        "F5",
        "Low-rank embedding",
        "An embedding regularised to low rank repairs it.",
        "Squared error outside 1.45e-4 (peak in place 100 %) against 2.76e-2 (3.7 %)",
        "authors' checkpoints, measured again",
        (*REMEDIES, *PLAIN),
        "share of held-out bumps in place, regularised minus unregularised",
        value=0.963,
    ),
    _claim(
        "F6",
        "Stripes",
        "Stripes among the training images repair it, and the data needed grow linearly instead of cubically.",
        "No number, threshold or fit is public",
        "authors' README and abstract",
        REMEDIES,
        "share of held-out bumps in place, with stripes minus without",
    ),
    _claim(
        "F7",
        "Input codes",
        "Another input code does not repair it.",
        "Squared error outside 3.4e-3 to 2.3e-3 as the bump code widens; raw numbers 4.9e-3",
        "authors' saved output",
        PLAIN,
        "largest share of held-out bumps in place over the codes",
        unit="share",
    ),
    _claim(
        "F8",
        "A gap in rotation",
        "In a gap of angles the digit cross-fades between the two edges.",
        "Picture only",
        "authors' saved output",
        ("rotation",),
        "cosine of the output with the cross-fade of both edges minus that with the true image, in the gap",
        unit="cosine",
    ),
    _claim(
        "F9",
        "Coordinate network",
        "A network that is given coordinates generalises with neither remedy.",
        "Squared error outside 3.9e-5 and 3.2e-5 (2 and 4 layers), peak in place 100 %",
        "authors' checkpoints, measured again; heavily confounded",
        REMEDIES,
        "share of held-out bumps in place, coordinate network minus CNN in the same setting",
    ),
)
