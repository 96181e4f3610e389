"""F1 to F9, the claims of the forced-rendering study (arXiv 2501.18797): untested until the study `rendering` exists.

To test one, give its Claim `studies=("rendering",)`, a `judge` function and its thresholds, as `ladder.py` does for C1.
Most of these are errors and not shares: `value` stays None where the published number is not a share.
"""

from collections.abc import Sequence

from recombine.claims.verdicts import Claim

NOT_YET = "The forced-rendering study (bump images, its decoders and their judges) is not built yet."


def _claims(rows: Sequence[tuple[str, str, str, str, str]]) -> tuple[Claim, ...]:
    return tuple(
        Claim(id=i, title=title, statement=statement, published=published, trust=trust, why_untested=NOT_YET)
        for i, title, statement, published, trust in rows
    )


CLAIMS = _claims(
    [
        (
            "F1",
            "Standard decoders fail outside",
            "Standard decoders fit the trained region and fail in the held-out one.",
            "CNN on a bump code: squared error 5.6e-5 inside, 3.4e-3 outside (a blank image 4.0e-3), peak in place in "
            "29 % of held-out cells",
            "measured again, one seed; authors' saved output",
        ),
        (
            "F2",
            "Superposition",
            "Outside, the output is a superposition of memorised training outputs.",
            "Cosine 0.67 with the mean of training outputs that share x or y, 0.33 with the true image",
            "measured again, one seed, with a metric that is not the authors'",
        ),
        (
            "F3",
            "Factorized kernels",
            "Learned kernels look factorized and binary.",
            "No number from the authors",
            "the authors' test is degenerate",
        ),
        (
            "F4",
            "Collapsed manifold",
            "Later layers entangle the latents again, and local volume shrinks outside.",
            "log10 of the volume at the output: -0.93 outside, -0.06 inside",
            "measured again, one seed",
        ),
        (
            "F5",
            "Low-rank embedding",
            "An embedding regularised to low rank repairs it.",
            "Squared error outside 1.45e-4 (peak in place 100 %) against 2.76e-2 (3.7 %)",
            "authors' checkpoints, measured again",
        ),
        (
            "F6",
            "Stripes",
            "Stripes among the training images repair it, and the data needed grow linearly instead of cubically.",
            "No number, threshold or fit is public",
            "authors' README and abstract",
        ),
        (
            "F7",
            "Input codes",
            "Another input code does not repair it.",
            "Squared error outside 3.4e-3 to 2.3e-3 as the bump code widens; raw numbers 4.9e-3",
            "authors' saved output",
        ),
        (
            "F8",
            "A gap in rotation",
            "In a gap of angles the digit cross-fades between the two edges.",
            "Picture only",
            "authors' saved output",
        ),
        (
            "F9",
            "Coordinate network",
            "A network that is given coordinates generalises with neither remedy.",
            "Squared error outside 3.9e-5 and 3.2e-5 (2 and 4 layers), peak in place 100 %",
            "authors' checkpoints, measured again; heavily confounded",
        ),
    ]
)
