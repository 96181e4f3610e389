"""Judges: is a sample an image of the world, and does it show what was asked?"""

from recombine.judges.probe import Probe, build_probe, fit_probe
from recombine.judges.verdict import Judge, JudgingSettings, Verdicts, build_judge, calibrate

__all__ = ["Judge", "JudgingSettings", "Probe", "Verdicts", "build_judge", "build_probe", "calibrate", "fit_probe"]
