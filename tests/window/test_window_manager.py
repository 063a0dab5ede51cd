"""The window under a window manager, on a virtual X screen. About 15 s: two seconds for each window."""

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import QRect

from resources import ROOT as RESOURCES
from tests.support import real_window
from tests.support.packages import WINDOW_MANAGER, missing
from tests.support.waiting import wait_until

ROOT = RESOURCES.parent
pytestmark = [
    pytest.mark.window,
    pytest.mark.e2e,
    pytest.mark.skipif(bool(missing(*WINDOW_MANAGER)), reason=missing(*WINDOW_MANAGER)),
]
HD = "1920x1080"


@contextlib.contextmanager
def desktop(size: str, *, monitors: int = 1) -> Iterator[dict[str, str]]:
    """Start an X server with monitors side by side, and a window manager; yield the variables that lead to it."""
    reads, writes = os.pipe()
    server = ["Xvfb", "-displayfd", str(writes), "-screen", "0", f"{size}x24", "-nolisten", "tcp", "-noreset"]
    with subprocess.Popen(server, pass_fds=[writes], stderr=subprocess.DEVNULL) as xvfb:
        os.close(writes)
        with os.fdopen(reads) as answer:
            environment = {**os.environ, "DISPLAY": f":{answer.readline().strip()}", "QT_QPA_PLATFORM": "xcb"}
        try:
            with _manager(environment):
                width, height = (int(each) for each in size.split("x"))
                for number in range(monitors if monitors > 1 else 0):
                    part = width // monitors
                    place = f"{part}/300x{height}/300+{number * part}+0"
                    words = ["xrandr", "--setmonitor", f"monitor{number}", place, "none" if number else "screen"]
                    subprocess.run(words, env=environment, check=True, capture_output=True)
                yield environment
        finally:
            xvfb.terminate()


@contextlib.contextmanager
def _manager(environment: dict[str, str]) -> Iterator[None]:
    silent = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(["openbox", "--sm-disable"], env=environment, **silent) as manager:
        try:
            wait_until(lambda: _is_managed(environment), "the window manager")
            yield
        finally:
            manager.kill()


def _is_managed(environment: dict[str, str]) -> bool:
    asked = ["xprop", "-root", "_NET_SUPPORTING_WM_CHECK"]
    answer = subprocess.run(asked, env=environment, capture_output=True, text=True, check=False)
    return "window id" in answer.stdout


@pytest.fixture
def act(tmp_path: Path) -> Callable[..., list[dict]]:
    """Return a function that opens a window on a screen and returns its states after the steps."""

    def do(size: str, *steps: str, scale: str = "1", monitors: int = 1) -> list[dict]:
        with desktop(size, monitors=monitors) as environment:
            words = [sys.executable, real_window.__file__, str(tmp_path / "runs"), *steps]
            answer = subprocess.run(
                words, env={**environment, "QT_SCALE_FACTOR": scale}, capture_output=True, text=True, check=False
            )
        assert answer.returncode == 0, answer.stderr
        return [each for each in json.loads(answer.stdout.splitlines()[-1]) if each]

    return do


@pytest.mark.slow
def test_window_is_maximised_minimised_and_shown_on_the_full_screen(act) -> None:
    first, maximised, again, full, back, minimised, shown = act(
        HD, "open", "state", "maximise", "state", "normal", "state", "full_screen", "state", "normal", "state",
        "minimise", "state", "normal", "state",
    )
    assert first["window"][2:] == [1480, 900]
    assert first["frame"][3] > first["window"][3], "it has a title bar: there is a window manager"
    left, top, width, height = maximised["window"]
    assert (left, width, top + height) == (0, 1920, 1080)
    assert top > 0
    assert full["window"] == [0, 0, 1920, 1080]
    assert again["window"] == back["window"] == shown["window"] == first["window"]
    assert minimised["poll_ms"] > shown["poll_ms"], "a window that nobody sees polls less often"


@pytest.mark.slow
def test_window_comes_back_where_it_was_left_or_on_the_screen_that_is_there(act) -> None:
    left, chinese = act("2600x1200", "open", "move_right", "state", "change_language", "state", "close", monitors=2)
    assert left["screen"][0] == 1300, "it is on the right one of two monitors"
    assert chinese["frame"] == left["frame"]
    (again,) = act("2600x1200", "open", "state", "close", monitors=2)
    assert again["frame"] == left["frame"]

    (elsewhere,) = act("1280x800", "open", "state", "maximise", "close")
    assert _is_within(elsewhere["frame"], elsewhere["screen"]), "the right monitor is gone"
    (maximised,) = act("1280x800", "open", "state", "close")
    assert maximised["window"][2] == 1280
    first, left = act("2600x1200", "open", "move_right", "state", "lose_right_screen", "state", monitors=2)
    assert first["screen"][0] == 1300, "it is on the right one of two monitors"
    assert left["screen"][0] == 0
    assert _is_within(left["frame"], left["screen"])


@pytest.mark.slow
def test_window_fits_a_small_screen_of_high_resolution(act) -> None:
    """A screen of 2600 x 1360 at scale 2 has room for 1300 x 680."""
    (state,) = act("2600x1360", "open", "state", scale="2")
    assert state["pixel_ratio"] == 2
    assert state["grab"] == [2 * state["window"][2], 2 * state["window"][3]], "it is drawn with all pixels"
    assert _is_within(state["frame"], state["screen"])


def _is_within(inner: list[int], outer: list[int]) -> bool:
    return QRect(*outer).contains(QRect(*inner))
