"""The figure of an entry: dark where clear, with the word of each comparison and the number of seeds."""

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from planted_beyond import BY_ID, asked, of_library, plant_shares, plant_spread, words
from recombine.claims.beyond.entries import Entry
from recombine.claims.beyond.figures import draw_entry, seeds_text, shade
from recombine.claims.figures import INK


def test_a_figure_needs_an_answer(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no answer"):
        draw_entry(Entry(BY_ID["B1"], None, "There is none."), tmp_path / "B1.png")


def test_differences_are_dark_where_clear_and_have_their_word(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No colour of a family is among them."""
    entry = asked("B1", plant_spread(tmp_path / "spread"))
    assert entry.found is not None
    contrasts = entry.found.contrasts
    dark = {one.label for one in contrasts if shade(one) == INK}
    assert dark == {label for label, word in words(entry).items() if word in ("higher", "lower")} != set()
    assert len({shade(one) for one in contrasts}) == 2
    drawn, write = [], Axes.text
    monkeypatch.setattr(Axes, "text", lambda axes, x, y, s, **style: drawn.append(s) or write(axes, x, y, s, **style))
    draw_entry(entry, tmp_path / "B1.png")
    assert drawn == list(words(entry).values())


def test_a_figure_says_how_many_seeds_its_comparisons_have(tmp_path: Path) -> None:
    entry = asked("B1", plant_spread(tmp_path))
    assert entry.found is not None and seeds_text(entry.found) == "8 seeds"
    first, *others = entry.found.contrasts
    more = replace(first, values={seed: 0.1 for seed in range(16)})
    assert seeds_text(replace(entry.found, contrasts=(more, *others))) == "8 to 16 seeds"


def test_titles_of_four_panels_do_not_run_into_each_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    study = of_library("coverage-xs")
    entry = asked("B4", plant_shares(tmp_path / "coverage-xs", study, lambda *at: 0.9, probe=0.05))
    drawn, save = [], Figure.savefig
    monkeypatch.setattr(Figure, "savefig", lambda self, *to, **how: drawn.append(self) or save(self, *to, **how))
    draw_entry(entry, tmp_path / "B4.png")
    (figure,) = drawn
    titles = [axes._left_title.get_window_extent() for axes in figure.axes]
    assert len(titles) == 4
    assert all(one.x1 < other.x0 for one, other in pairwise(titles))
    beside = [text.get_window_extent() for text in figure.texts]  # the heading above them
    assert all(title.y1 < text.y0 for title in titles for text in beside if text.x0 < title.x1)
