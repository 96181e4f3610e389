"""The report's page, as tests read it."""

import html
import re
from pathlib import Path

from recombine.report import write_report


def page_of(folder: Path) -> str:
    return write_report(folder).read_text(encoding="utf-8")


def text_of(page: str) -> str:
    """The words a reader sees, without tags, script and style."""
    bare = re.sub(r"<(script|style)\b.*?</\1>", " ", page, flags=re.S)
    return re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]+>", " ", bare)))


def section_of(page: str, name: str) -> str:
    """The section of that name, with its tags; nothing where there is none."""
    found = re.search(rf'<section id="{name}">.*?</section>', page, re.S)
    return found.group(0) if found else ""
