"""The preferences of the user, and where they are kept."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from core.language import tr, tr_noop
from core.schema.setting import settings_of
from core.schema.settings import ReleaseWatch
from core.schema.spec import RunSpec
from gui.base.settings_file import SettingsFile

KEY = "window/preferences"
VERSION = 1
THEMES = {"desktop": tr_noop("as the desktop"), "dark": tr_noop("dark"), "light": tr_noop("light")}
COLOURS = {
    "desktop": tr_noop("as the desktop"), "standard": tr_noop("standard"), "strong": tr_noop("strong contrast"),
}
"""Values with their titles."""
SENSELESS = tr_noop("Some preferences in {path} make no sense, and have their defaults: {shown}.")
NEWER = tr_noop(
    "The preferences were written by a newer Trainyard. What this one does not know is kept in the settings file, and "
    "has no effect."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Preferences:
    """What the user prefers. Raises `ValueError` with a few words for a value that cannot be."""

    theme: str = "desktop"
    colours: str = "desktop"
    """How strong the contrast of the colours is."""
    language: str = ""
    """Its code; the empty string for that of the desktop. An unknown code means English."""
    show_cpus: bool = True
    """Whether CPU devices are listed where there are GPUs."""
    tolerance_mb: int = ReleaseWatch().tolerance_mb
    wait_s: float = ReleaseWatch().wait_s
    cuda_ids: str = settings_of(RunSpec)["cuda_ids"].default

    def __post_init__(self) -> None:
        settings_of(RunSpec)["cuda_ids"].check(self.cuda_ids)
        ReleaseWatch(tolerance_mb=self.tolerance_mb, wait_s=self.wait_s)
        valid = {
            "theme": self.theme in THEMES,
            "colours": self.colours in COLOURS,
            "language": isinstance(self.language, str),
            "show_cpus": isinstance(self.show_cpus, bool),
        }
        for name, is_valid in valid.items():
            if not is_valid:
                raise ValueError(f"{name} = {getattr(self, name)!r}")


class PreferencesFile:
    """Reads and writes the preferences. Keeps what a newer version has written."""

    def __init__(self, file: SettingsFile) -> None:
        self._file = file
        self._kept: dict[str, Any] = {}
        self.problem = ""
        """What was wrong with the file: a sentence, or the empty string."""
        self.preferences = self._read()

    def save(self, preferences: Preferences) -> None:
        """Write the preferences now."""
        self.preferences = preferences
        self._kept = {"version": VERSION, **self._kept, **asdict(preferences)}
        self._file.save({KEY: self._kept})

    def _read(self) -> Preferences:
        self._file.move_aside_if_damaged()
        self._kept = self._file.value(KEY, dict)
        self.problem = self._file.problem
        known = Preferences()
        wrong = []
        for name in (field.name for field in fields(Preferences)):
            if name in self._kept:
                try:
                    known = replace(known, **{name: self._kept[name]})
                except (ValueError, TypeError):
                    wrong.append(f"{name} = {self._kept[name]!r}")
        version = self._kept.get("version", VERSION)
        if isinstance(version, int) and version > VERSION:
            self.problem = tr(NEWER)
        elif wrong:
            self.problem = tr(SENSELESS, path=self._file.path, shown=", ".join(wrong)[:200])
        return known
