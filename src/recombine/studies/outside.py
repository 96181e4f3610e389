"""What a study needs that its file does not hold: other files, packages, weights. What is missing is said before
anything is trained, and by a dry run too."""

from recombine.judges.inception import inception
from recombine.studies.spec import AnyStudy, RenderingStudy


def check_outside(study: AnyStudy) -> None:
    """UserError where something is missing or broken."""
    if isinstance(study, RenderingStudy):
        for arm in study.arms.values():
            arm.build_world()  # which reads the digit that a path names
    elif study.judging.fid:
        inception()
