"""The one progress display: bars on a terminal, lines elsewhere, nothing when quiet."""

from __future__ import annotations

import re

import pytest

from noisyteacher.core import progress
from noisyteacher.core.progress import ProgressDisplay, track


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")  # what rich takes for a terminal
    monkeypatch.setenv("TERM", "xterm")


def test_tracking_prints_lines_off_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    blocks = [[1, 2], [3], [4, 5, 6]]
    assert list(track(blocks, 6, "Decoding images")) == blocks
    assert capsys.readouterr().err.splitlines() == [
        "Decoding images: 0 of 6",
        "Decoding images: 6 of 6",
    ]


def test_tracking_draws_a_bar_on_a_terminal(
    terminal: None, capsys: pytest.CaptureFixture[str]
) -> None:
    assert list(track([[1, 2], [3]], 3, "Decoding images")) == [[1, 2], [3]]
    assert "3/3" in capsys.readouterr().err


def test_a_line_every_few_seconds_tells_the_time_left(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 0.0
    monkeypatch.setattr(progress.time, "monotonic", lambda: now)
    with ProgressDisplay() as display:
        for now in (4.0, 12.0, 14.0, 20.0):
            display.update("Reading", int(now), 48)
        display.update("Reading", 25, 48, line="25 lines", seconds_left=7)
        now = 40.0
        display.update("Reading", 26, 48, line="26 lines", seconds_left=7)
        display.update("Reading", 48, 48, line="48 lines")
    assert capsys.readouterr().err.splitlines() == [
        "Reading: 4 of 48, about 44 s left",
        "Reading: 20 of 48, about 28 s left",
        "26 lines, about 7 s left",
        "48 lines",
    ]


def test_every_line_on_request(capsys: pytest.CaptureFixture[str]) -> None:
    with ProgressDisplay(every_line=True) as display:
        for done in (1, 2, 3):
            display.update("Cells", done, 3, line=f"[{done}/3]")
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(",")[0] for line in lines] == ["[1/3]", "[2/3]", "[3/3]"]


def test_a_bar_for_each_piece_of_work_and_lines_above_them(
    terminal: None, capsys: pytest.CaptureFixture[str]
) -> None:
    with ProgressDisplay() as display:
        display.update("one", 1, 4, numbers="loss 0.5")
        display.say("[a line] with brackets")
        display.update("two", 2, 4, numbers="loss 0.25")
    shown = capsys.readouterr().err
    for part in ("one", "1/4", "loss 0.5", "[a line] with brackets", "two", "2/4", "loss 0.25"):
        assert part in shown


def test_a_terminal_of_80_columns_shows_name_bar_number_and_time_on_one_line(
    terminal: None, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    name = "Consistency(inner=SLaM(hard=True, per_class=True, lower_bound=0.7)), trial 12"
    with ProgressDisplay() as display:
        display.update_total("All students", 3, 26)
        display.update(name, 17, 40, numbers="81.2%")
    shown = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", capsys.readouterr().err)
    line = next(line for line in reversed(shown.splitlines()) if line.startswith("Consistency"))
    assert len(line) <= 80
    for part in ("Consistency(inner=SLaM(", "…", "━", "17/40", "81.2%", "-:--"):
        assert part in line, line


def test_finished_lines_disappear_and_the_total_stays(
    terminal: None, capsys: pytest.CaptureFixture[str]
) -> None:
    with ProgressDisplay() as display:
        display.update_total("All students", 0, 2)
        display.update("one", 4, 4)
        display.update_total("All students", 1, 2)
        display.update("two", 1, 4)
        capsys.readouterr()
        names = [task.description for task in display._bars.tasks]
    assert names == ["All students", "two"]


@pytest.mark.parametrize("on_a_terminal", [False, True])
def test_quiet_shows_nothing(
    on_a_terminal: bool, request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]
) -> None:
    if on_a_terminal:
        request.getfixturevalue("terminal")
    with ProgressDisplay(quiet=True, in_bytes=True, every_line=True) as display:
        display.update("Reading", 1, 2)
        display.say("a line")
        display.update("Reading", 2, 2)
    assert capsys.readouterr().err == ""
