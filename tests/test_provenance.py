"""What a result says it was made with."""

from collections.abc import Iterator

import pytest

from recombine import provenance


@pytest.fixture
def asked_anew() -> Iterator[None]:
    provenance._checked_out.cache_clear()
    yield
    provenance._checked_out.cache_clear()


def test_the_code_is_that_of_the_beginning(asked_anew: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """A commit made while a long run is at work is not what it runs."""
    head = {"rev-parse": "aaaaaaaaaaaa", "status": ""}
    monkeypatch.delenv("RECOMBINE_COMMIT", raising=False)
    monkeypatch.setattr(provenance, "_git", lambda folder, word, *words: head[word])
    assert provenance.code_version() == "aaaaaaaaaaaa"
    head.update({"rev-parse": "bbbbbbbbbbbb", "status": " M a.py"})
    assert provenance.code_version() == "aaaaaaaaaaaa"
    provenance._checked_out.cache_clear()
    assert provenance.code_version() == "bbbbbbbbbbbb+changes"
    monkeypatch.setenv("RECOMBINE_COMMIT", "cccccccccccc")
    assert provenance.code_version() == "cccccccccccc"
