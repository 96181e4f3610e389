"""The base of every settings class: frozen, complete, and unknown words are mistakes."""

from pydantic import BaseModel, ConfigDict


class Settings(BaseModel):
    """Settings of one part of a study. Instances never change, so they can be hashed and stored beside results."""

    model_config = ConfigDict(extra="forbid", frozen=True)
