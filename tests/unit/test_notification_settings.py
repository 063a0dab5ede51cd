"""Settings of notifications: what cannot be is refused, damage is told, and the file is private."""

import json
import stat
from dataclasses import replace

import pytest

from core.errors import RunError
from core.notifications.channels import masked
from core.notifications.settings import NotificationSettings, load, save, settings_file

GIVEN = NotificationSettings(
    desktop=False, command="true", webhook="https://hooks.example.org/T0/secret", ntfy="https://ntfy.sh/topic",
    apprise=("mailto://me:secret@example.org",), occasions=("failed",), min_duration_s=60,
)
ALARMS = ["gone", "hot", "disk", "held"]


def write(text: str) -> None:
    settings_file().parent.mkdir(parents=True, exist_ok=True)
    settings_file().write_text(text)


def test_settings_are_kept_in_a_private_file_together_with_those_of_a_newer_version() -> None:
    assert load().settings == NotificationSettings()
    write('{"matrix": "#room"}')
    for use in (load, lambda: save(GIVEN)):
        settings_file().chmod(0o644)
        use()
        assert stat.S_IMODE(settings_file().stat().st_mode) == 0o600
    assert load().settings == GIVEN
    assert load().problem == ""
    assert json.loads(settings_file().read_text())["matrix"] == "#room"
    assert "secret" not in repr(GIVEN)


@pytest.mark.parametrize(("version", "new"), [({}, ALARMS), ({"version": 1}, ALARMS), ({"version": 2}, [])])
def test_alarms_that_an_older_file_could_not_name_are_on(version: dict[str, int], new: list[str]) -> None:
    write(json.dumps({**version, "occasions": ["failed", "nan"]}))
    assert load().settings.occasions == ("failed", "nan", *new)
    save(load().settings)
    assert load().settings.occasions == ("failed", "nan", *new), "what is chosen from now on stays"


@pytest.mark.parametrize("text", ["", "[]", "{", "\xff", "[" * 10_000, "null"])
def test_damaged_file_is_told_and_does_no_harm(text: str) -> None:
    write(text)
    loaded = load()
    assert loaded.settings == NotificationSettings()
    assert str(settings_file()) in loaded.problem
    save(GIVEN)
    assert load().settings == GIVEN


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("desktop", "yes"), ("desktop", None), ("command", ["rm"]), ("command", "a\0b"), ("webhook", "ftp://x/y"),
        ("webhook", "https://"), ("webhook", "https://[::1"), ("webhook", "https://host:port/"), ("webhook", 7),
        ("webhook", "https://host/a b"), ("webhook", "https://host/\n"), ("webhook", "https://h/" + "x" * 5000),
        ("ntfy", "https://ntfy.sh/"), ("ntfy", "topic"), ("apprise", "mailto://x"), ("apprise", ["nothing"]),
        ("apprise", [1]), ("occasions", ["lunch"]), ("occasions", "failed"), ("min_duration_s", -1),
        ("min_duration_s", float("nan")), ("min_duration_s", True),
    ],
)
def test_value_that_cannot_be_is_named_and_the_others_are_used(name: str, value: object) -> None:
    write(json.dumps({"min_duration_s": 5, "ntfy": "https://ntfy.sh/a", name: value}))
    loaded = load()
    expected = {"min_duration_s": 5, "ntfy": "https://ntfy.sh/a"}
    expected[name] = getattr(NotificationSettings(), name)
    assert loaded.settings == replace(NotificationSettings(), **expected)
    assert f": {name}." in loaded.problem
    with pytest.raises(ValueError, match=r"\w"):
        NotificationSettings(**{name: tuple(value) if isinstance(value, list) else value})


@pytest.mark.parametrize(
    ("address", "sentence"),
    [
        ("example.org/secret", "must begin with https:// or http:// and a host"),
        ("https://example.org:99999/secret", "is malformed"),
        ("https://example.org/sec ret", "has a space or a character that addresses cannot have"),
    ],
)
def test_malformed_address_is_refused_without_repeating_it(address: str, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence) as refused:
        NotificationSettings(webhook=address)
    assert "secret" not in str(refused.value)
    assert "sec ret" not in str(refused.value)


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("https://user:secret@example.org:8443/secret?key=secret", "example.org:8443"),
        ("http://[::1]:80/secret", "[::1]:80"),
        ("tgram://secret/123", "tgram://…"),
        ("secret", "…"),
        ("https://[secret", "…"),
    ],
)
def test_addresses_are_shown_without_secrets(address: str, shown: str) -> None:
    assert masked(address) == shown


def test_file_that_cannot_be_written_is_told(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("TRAINYARD_CONFIG_DIR", str(tmp_path / "file" / "config"))
    with pytest.raises(RunError, match=r"notifications\.json could not be written: File exists\. Check its perm"):
        save(GIVEN)
    assert "cannot be read: Not a directory." in load().problem
