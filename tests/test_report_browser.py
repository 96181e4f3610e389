"""The report in a real browser: curves that work, nothing that overflows, and no script but its own."""

import html
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from fake_study import not_judged, write_fake_study
from recombine.report import write_report

CHROMIUM = next(
    (found for name in ("chromium", "chromium-browser", "google-chrome", "chrome") if (found := shutil.which(name))),
    None,
)
FLAGS = [
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage"),
    "--window-size=1200,1600",
]
needs_browser = pytest.mark.skipif(CHROMIUM is None, reason="no chromium or chrome on the PATH to open the page with")


def browse(address: str) -> dict[str, str]:
    """Open an address; the data attributes of <html> once scripts have run."""
    assert CHROMIUM
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        command = [CHROMIUM, *FLAGS, f"--user-data-dir={profile}", "--dump-dom", address]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    found = re.search(r"<html\b([^>]*)>", done.stdout)
    assert found, done.stderr[-500:]
    return {key: html.unescape(value) for key, value in re.findall(r'data-(\w+)="([^"]*)"', found.group(1))}


@needs_browser
def test_curves_draw_and_controls_work_in_a_browser(three_arms: Path) -> None:
    seen = browse(write_report(three_arms).as_uri() + "#selftest")
    assert seen.get("error") is None
    assert seen["drawn"] == "3" and seen["selftest"] == "passed"


@needs_browser
def test_many_arms_in_a_browser(twelve_arms: Path) -> None:
    seen = browse(write_report(twelve_arms).as_uri() + "#selftest")
    assert seen.get("error") is None
    assert seen["drawn"] == "12" and seen["selftest"] == "passed"


@needs_browser
@pytest.mark.parametrize("width", [400, 520])
@pytest.mark.parametrize("arms", [3, 12])
def test_nothing_overflows_on_a_phone(
    arms: int, width: int, three_arms: Path, twelve_arms: Path, tmp_path: Path
) -> None:
    """Chromium's window is at least 500 pixels wide, so the page is put into a narrower frame."""
    page = write_report(three_arms if arms == 3 else twelve_arms)
    frame = tmp_path / "frame.html"
    frame.write_text(
        "<!doctype html><script>addEventListener('message', function (e) {"
        "Object.assign(document.documentElement.dataset, {selftest: e.data.selftest, width: e.data.width})})</script>"
        f"<iframe width={width} height=900 style='border:0' src='{page.as_uri()}#selftest'></iframe>"
    )
    assert browse(frame.as_uri()) == {"selftest": "passed", "width": str(width)}


@needs_browser
def test_hostile_and_poor_pages_draw_without_errors(tmp_path: Path) -> None:
    mark = "document.documentElement.dataset.evil=1"
    evil = f"</script><script>{mark}</script><img src=x onerror={mark}>"
    folder = write_fake_study(
        tmp_path / "s", arms=("dit",), members=1, evaluations=1, pictures=False, name=evil, question=evil
    )
    seen = browse(write_report(folder).as_uri() + "#selftest")
    assert seen.get("evil") is None and seen.get("error") is None
    assert seen["drawn"] == "1" and seen["selftest"] == "passed"
    assert browse(write_report(not_judged(folder)).as_uri()) == {"drawn": "nothing"}
