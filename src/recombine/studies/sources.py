"""Where study files come from: the library of the package, or a file of the user's."""

from importlib import resources
from pathlib import Path

from recombine.errors import UserError
from recombine.studies.checking import nearest
from recombine.studies.tree import show

MOST_BYTES = 1_000_000  # a study file is a page of text; anything larger is some other file


def library() -> list[str]:
    """The names of the studies that come with the package."""
    folder = resources.files("recombine.studies") / "library"
    if not folder.is_dir():
        return []
    return sorted(file.name.removesuffix(".yaml") for file in folder.iterdir() if file.name.endswith(".yaml"))


def study_text(place: str) -> tuple[str, str]:
    """The text of a study and its name in messages: of a file, or of the library's study if `place` is a bare name."""
    path = Path(place)
    if path.suffix not in (".yaml", ".yml") and path.name == place and not path.is_file():
        names = library()
        if place in names:
            text = (resources.files("recombine.studies") / "library" / f"{place}.yaml").read_text(encoding="utf-8")
            return text, f"{place}.yaml"
        hint = nearest(place, names) or "; give the path of a study file"
        raise UserError(f"no study named {show(place)} in the library{hint}")
    try:
        with open(path, "rb") as file:
            data = file.read(MOST_BYTES + 1)
    except FileNotFoundError as error:
        name = path.name.removesuffix(path.suffix)
        hint = f"; for the one in the library say {name}" if name in library() else ""
        raise UserError(f"there is no study file {place}{hint}") from error
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UserError(f"cannot read the study file {place}: {reason}") from error
    if len(data) > MOST_BYTES:
        raise UserError(f"{place} is larger than {MOST_BYTES // 1_000_000} MB, so it is no study file")
    try:
        return data.decode("utf-8-sig"), place
    except UnicodeDecodeError as error:
        raise UserError(f"{place}:{data[: error.start].count(10) + 1}: not UTF-8 text") from error
