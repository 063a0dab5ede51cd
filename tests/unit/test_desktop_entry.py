"""The command `desktop`: entry and icon are written where desktops look for them, and removed again."""

import json
import re
import subprocess
from pathlib import Path

import pytest

from core.cli import __main__
from core.cli.commands import desktop
from core.system.installation import own_command
from tests.support.packages import MENU_ENTRY, missing


@pytest.fixture
def data(tmp_path, monkeypatch) -> Path:
    """The data folder of a user, not there yet."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    return tmp_path / "data"


def started(text: str) -> list[str]:
    """Return the command that a desktop starts for an entry, by the rules of the specification."""
    value = next(line for line in text.splitlines() if line.startswith("Exec=")).removeprefix("Exec=")
    value = value.replace("\\\\", "\\")  # first the escapes of every value, then the quotes of `Exec`
    words = re.findall(r'"((?:\\.|[^"\\])*)"|(\S+)', value)
    return [(re.sub(r"\\(.)", r"\1", quoted) or plain).replace("%%", "%") for quoted, plain in words]


def test_install_and_remove_say_what_they_do_and_can_be_repeated(data, capsys):
    assert __main__.main(["desktop", "install"]) == 0
    entry = data / "applications" / "trainyard.desktop"
    icon = data / "icons" / "hicolor" / "scalable" / "apps" / "trainyard.svg"
    assert capsys.readouterr().out == f"Wrote {icon}\nWrote {entry}\nTrainyard is in the menu of programs.\n"
    assert started(entry.read_text()) == list(own_command())
    assert icon.read_bytes() == desktop.ICON.read_bytes()
    assert __main__.main(["desktop", "install"]) == 0
    assert "is up to date" in capsys.readouterr().out
    assert __main__.main(["desktop", "remove", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["changed"] == 2
    assert not entry.exists()
    assert not icon.exists()
    assert __main__.main(["desktop", "remove"]) == 0
    assert "There is no entry of Trainyard" in capsys.readouterr().out


def test_folder_that_cannot_be_written_is_one_sentence(data, capsys):
    data.write_text("a file in the place of the folder")
    assert __main__.main(["desktop", "install"]) == 2
    assert "cannot be written" in capsys.readouterr().err


@pytest.mark.parametrize("word", ["/opt/a b/trainyard", "/a\"b'c", "/100%", "/$HOME/`x`", "/back\\slash", "/täglich"])
def test_every_path_arrives_as_it_is(word):
    assert started(desktop.entry([word, "-c", "print(1); x = 'y'"])) == [word, "-c", "print(1); x = 'y'"]


@pytest.mark.parametrize("word", ["/a=b", "/new\nline"])
def test_path_that_an_entry_cannot_have_is_refused(word):
    with pytest.raises(ValueError, match="Install Trainyard in another folder"):
        desktop.entry([word])


@pytest.mark.skipif(bool(missing(MENU_ENTRY)), reason=missing(MENU_ENTRY))
def test_entry_is_valid(tmp_path):
    file = tmp_path / "trainyard.desktop"
    file.write_text(desktop.entry(own_command()))
    assert subprocess.run(["desktop-file-validate", file], capture_output=True, text=True, check=False).stdout == ""
