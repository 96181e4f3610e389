"""What people look at: the page of a finished study and its figures."""

from recombine.report.drawn import drawn_figure
from recombine.report.figures import summary_figure
from recombine.report.page import write_report

__all__ = ["drawn_figure", "summary_figure", "write_report"]
