"""The one training loop, for all families and all seeds of an arm at once."""

from recombine.training.settings import TrainingSettings
from recombine.training.trainer import Trainer, TrainingData

__all__ = ["Trainer", "TrainingData", "TrainingSettings"]
