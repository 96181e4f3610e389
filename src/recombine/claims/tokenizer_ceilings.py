"""What tokenizers can write at all, in RESULTS.md: from the files of `recombine ceiling` in results/ceilings.

They lie beside the studies and are none: nothing is trained on the tokens, and no verdict rests on them.
"""

from collections.abc import Sequence
from pathlib import Path

from recombine.claims.beyond.tokens import KINDS
from recombine.claims.tables import FAR
from recombine.claims.why.sections import mark, relative
from recombine.report.words import join, level_name, percents, share
from recombine.studies.ceilings import FOLDER, Ceiling, Ceilings, is_ceilings, read

TITLE = "What a tokenizer can write"
ANCHOR = "tokenizer-ceilings"
SAW = {"all": "fitted on all combinations", "train": "fitted on the trained ones only", None: "nothing to fit"}


def read_ceilings(folder: Path) -> list[tuple[Path, Ceilings]]:
    """The files in a folder, by name."""
    return [(path, read(path)) for path in sorted(folder.glob("*.json"))]


def folder_of(folders: Sequence[Path], home: Path) -> Path:
    """Of the folders given that of ceilings, or where it is in a project."""
    return next((folder for folder in folders if is_ceilings(folder)), home / "results" / FOLDER)


def brief(found: Sequence[tuple[Path, Ceilings]]) -> str:
    """For the first screen: tokenizers that saw the trained combinations only, of level-2. Empty where none did."""
    blind = {
        _name(one): (one.over(file.codes(FAR), "joint").mean, one.over(file.codes(FAR), "joint_probe_only").mean)
        for _, file in found
        for one in file.tokenizers.values()
        if one.sees == "train" and file.codes(FAR)
    }
    if not blind:
        return ""
    right, named = ([shares[i] for shares in blind.values()] for i in (0, 1))
    return (
        f"Real level-2 images, encoded and decoded by tokenizers that were fitted on the trained combinations only "
        f"({join(list(blind))}), are right and valid in {percents(right)}; a probe names {percents(named)} right. A "
        "model on such tokens can hardly be expected to draw more."
    )


def sections(found: Sequence[tuple[Path, Ceilings]], home: Path) -> list[str]:
    """A table per file, and how it was made."""
    parts = []
    for path, file in found:
        levels = sorted(set(file.levels.values()))
        counts = ("right and valid", "named right")
        heads = ["tokenizer", *(f"{level_name(level)}, {count}" for level in levels for count in counts)]
        rows = [f"| {' | '.join(heads)} |", f"|---|{'---:|' * (len(heads) - 1)}"]
        for one in file.tokenizers.values():
            cells = [
                share(one.over(file.codes(level), word)) for level in levels for word in ("joint", "joint_probe_only")
            ]
            rows.append(f"| {_name(one)}, {SAW[one.sees]} | {' | '.join(cells)} |")
        made = f"`{file.command}`, code {file.versions.get('code')}, torch {file.versions.get('torch')}"
        on = file.hardware.get("gpu") or f"{file.hardware.get('cores')} {file.hardware.get('machine')} CPU cores"
        where = relative(path, home)
        picture = path.with_suffix(".png")
        if picture.is_file():
            parts.append(f"![What tokenizers make of held-out combinations]({relative(picture, home)})")
        parts += ["\n".join(rows), f"From [{path.stem}]({where}): {made}, {on}. {_sample(file)}"]
    if not parts:
        return []
    head = (
        "Real images of every combination, encoded and decoded, judged as pictures of models are. No verdict rests on "
        "it; a model on these tokens can hardly be expected to draw what they cannot show."
    )
    return [mark(ANCHOR), f"## {TITLE}", head, *parts]


def _name(one: Ceiling) -> str:
    return KINDS.get(one.kind, one.kind)


def _sample(file: Ceilings) -> str:
    return (
        f"{file.images} images of each combination; means and 95 % intervals over {len(file.seeds)} tokenizers of each "
        "kind, fitted on the same images with seeds of their own. The judge is that of the study."
    )
