"""The base of every settings class: frozen, complete, and words that are unknown or do nothing are mistakes."""

from typing import Any, ClassVar, Self

from pydantic import BaseModel, ConfigDict, model_validator


class Settings(BaseModel):
    """Settings of one part of a study. Instances never change, so they can be hashed and stored beside results."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    # Words that do something only where another word has a certain value: word -> (other word, value).
    needs: ClassVar[dict[str, tuple[str, Any]]] = {}

    @model_validator(mode="after")
    def _nothing_idle(self) -> Self:
        """A word that does nothing misleads its reader, and makes two arms look different that are the same."""
        for word, (other, value) in self.needs.items():
            if getattr(self, word) != type(self).model_fields[word].default and getattr(self, other) != value:
                raise ValueError(
                    f"{word} does nothing unless {other} is {value}: leave it out, or set {other}: {value}"
                )
        return self
