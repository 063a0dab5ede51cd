"""The texts of the form for a script, and their conversion to typed choices."""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from core.config.choices import ScriptChoices
from core.language import tr
from core.launchers.program import SUFFIX
from core.schema.spec import RunSpec

MODULE = "-m "
"""The prefix of a module's name, as for `python -m`."""
MAIN = "__main__.py"


@dataclass(frozen=True, slots=True, kw_only=True)
class TypedScript:
    """The texts of the fields, unchanged."""

    script: str
    """A path; or `-m` and the name of a module."""
    arguments: str = ""
    """One line, quoted as for a shell."""
    working_dir: str = ""
    environment: str = ""
    """One NAME=VALUE in each line; NAME alone takes the value from the environment at the start."""
    launch: str = ""
    """`one`, `per-device`, or the empty string for the mode that the source proposes."""
    python: str = ""
    """The empty string for the usual one."""
    expression: str = ""
    rules: str = ""
    """The file of rules for the log; the empty string for the one beside the script."""
    devices: tuple[str, ...] = ()
    training: Mapping[str, object] = field(default_factory=dict)
    stop: Mapping[str, object] = field(default_factory=dict)
    release: Mapping[str, object] = field(default_factory=dict)
    cuda_ids: str = "uuid"

    @property
    def module(self) -> str:
        """The name of the module; the empty string if a path is given."""
        return self.script.removeprefix(MODULE).strip() if self.script.startswith(MODULE) else ""

    @property
    def path(self) -> str:
        """The absolute path; the empty string if a module, or nothing, is given."""
        return absolute(self.script) if self.script and not self.module else ""

    def choices(self) -> ScriptChoices:
        """Return the choices. Raises `ValueError` with a sentence for a text that cannot be parsed."""
        if not self.script:
            raise ValueError(tr("No script is chosen. Choose a Python program, or drop one on the window."))
        if not self.working_dir:
            raise ValueError(tr("No working folder is given. Choose the folder in which the script should run."))
        given = variables(self.environment)
        return ScriptChoices(
            script=self.path,
            module=self.module,
            arguments=split(self.arguments),
            environment={name: value for name, value in given.items() if value is not None},
            inherited=tuple(name for name, value in given.items() if value is None),
            working_dir=absolute(self.working_dir),
            launch=self.launch or None,
            python=self.python or None,
            expression=self.expression,
            rules=self.rules,
            devices=self.devices,
            training=self.training,
            stop=self.stop,
            release=self.release,
            cuda_ids=self.cuda_ids,
        )


def absolute(text: str) -> str:
    """Return a typed path as an absolute one; `~` is the home folder."""
    path = Path(text)
    with contextlib.suppress(RuntimeError):  # an unknown user: `~name` is a file name then
        path = path.expanduser()
    return str(path.absolute())


def split(line: str) -> tuple[str, ...]:
    """Return the arguments in a line. Raises `ValueError` with a sentence for quotes that do not close."""
    try:
        return tuple(shlex.split(line))
    except ValueError as error:
        if "escaped" in str(error):
            raise ValueError(tr("The line of arguments ends with a backslash. Quote them as for a shell.")) from None
        raise ValueError(
            tr("The line of arguments has a quotation mark that is not closed. Quote them as for a shell.")
        ) from None


def variables(text: str) -> dict[str, str | None]:
    """Return the variables in these lines, with None for a name alone; skip empty lines.

    Raises `ValueError` with a sentence.
    """
    found: dict[str, str | None] = {}
    for line in filter(str.strip, text.splitlines()):
        name, equals, value = line.partition("=")
        name = name.strip()
        if not name or any(letter.isspace() for letter in name):
            raise ValueError(
                tr("{line!r} is not an environment variable. Give NAME=VALUE, one per line.", line=line.strip())
            )
        if name in found:
            raise ValueError(tr("The variable {name} is given twice. Give it once.", name=name))
        found[name] = value if equals else None
    return found


def typed_of(spec: RunSpec) -> dict[str, str]:
    """Return the texts of the fields for the script of a run, by field."""
    script = spec.script
    assert script is not None
    return {
        "script": f"{MODULE}{script.module}" if script.module else script.path,
        "arguments": shlex.join(script.arguments),
        "working_dir": spec.working_dir,
        "environment": "\n".join(
            [*(f"{name}={value}" for name, value in script.environment.items()), *script.inherited]
        ),
        "launch": spec.strategy,
        "python": spec.python,
        "expression": script.expression,
        "rules": script.rules_file,
    }


def folder_of(script: str) -> str:
    """Return the default working folder of a script; the empty string for a module."""
    if not script or script.startswith(MODULE):
        return ""
    path = Path(absolute(script))
    return str(path if path.is_dir() else path.parent)


def is_program(path: Path) -> bool:
    """Return whether the path can be a script: a Python file, a notebook, or a folder with a `__main__.py`."""
    try:
        return (path / MAIN).is_file() if path.is_dir() else path.suffix in {".py", SUFFIX}
    except OSError:
        return False
