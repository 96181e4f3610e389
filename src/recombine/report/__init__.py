"""What people look at: the page of a finished study and its figures."""

from recombine.report.figures import summary_figure
from recombine.report.page import write_report

__all__ = ["summary_figure", "write_report"]
