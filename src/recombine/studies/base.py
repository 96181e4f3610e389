"""What every kind of study has beside its words: a form in plain data, and a name by content."""

from collections.abc import Collection, Iterator, Mapping
from typing import Any, ClassVar

from pydantic import model_validator

from recombine.files import content_hash
from recombine.settings import Settings

Mistaken = Iterator[tuple[tuple[str, ...], str]]
"""Where something is wrong, and what, in a sentence."""


WORDING = ("question", "limits")
PLANE_WORDING = (*WORDING, "measures")  # whatever is measured of decoders, the arms are the same
"""Words that change no result."""


def study_hash(words: Mapping[str, Any], wording: Collection[str]) -> str:
    """The name by content of a study in plain data."""
    return content_hash({word: value for word, value in words.items() if word not in wording})


class BaseStudy(Settings):
    """A study, complete: running it needs nothing else, and its hash names everything its results depend on."""

    wording: ClassVar[tuple[str, ...]] = WORDING

    @classmethod
    def mistakes(cls, parts: Mapping[str, Any]) -> Mistaken:
        """What no section can know by itself, as (place, sentence). Parts that are wrong by themselves are left out."""
        raise NotImplementedError

    @model_validator(mode="after")
    def _fits_together(self) -> "BaseStudy":
        parts = {name: getattr(self, name) for name in type(self).model_fields}
        wrong = [f"{'.'.join(path)}: {sentence}" for path, sentence in self.mistakes(parts)]
        if wrong:
            raise ValueError("; ".join(wrong))
        return self

    def resolved(self) -> dict[str, Any]:
        """Everything, as plain JSON data; `model_validate` reads it back."""
        return self.model_dump(mode="json")

    @property
    def hash(self) -> str:
        """The same for equal studies, today and next year. The wording does not count."""
        return study_hash(self.resolved(), self.wording)
