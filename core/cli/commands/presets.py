"""The commands `keep`, `setups` and `command`: reuse what a run trained, and how."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from core.cli.commands.common import find
from core.cli.output import say, say_json, say_rows, warn
from core.config import presets
from core.config.shell_command import shell_line
from core.errors import RunError

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

    from core.schema.spec import RunSpec


def command(options: Namespace) -> int:
    """Print a shell command that starts the same training; for a script, without Trainyard."""
    run = find(options)
    run.catch_up()
    cores = {name: tuple(fields.get("cores") or ()) for name, fields in run.facts.devices.items()}
    line = shell_line(run.spec(), cores)
    if options.json:
        say_json({"run": run.id, "command": line})
    else:
        say(line)
    return 0


def add_name(parser: ArgumentParser) -> None:
    """Add the argument of `keep`."""
    parser.add_argument("name", metavar="NAME", help="name of the preset, or the path of its file")


def keep(options: Namespace) -> int:
    """Save what a run trained, and how, as a preset; `trainyard run --setup NAME` starts it again."""
    run = find(options)
    path = presets.path_of(options.name, presets.default_root())
    replaced = path.exists()
    try:
        presets.save(run.spec(), path)
    except OSError as error:
        raise RunError(f"The preset {path} cannot be written: {error.strerror}. Choose another file.") from error
    if options.json:
        say_json({"run": run.id, "setup": path.stem, "path": str(path), "replaced": replaced})
    else:
        say(f"{path} (replaced)" if replaced else str(path))
    return 0


def list_presets(options: Namespace) -> int:
    """List the presets saved by name."""
    found = presets.read_all(presets.default_root())
    rows = [
        {
            "name": each.name, "path": str(each.path), "what": _training(each.spec) if each.spec else None,
            "problem": each.problem or None,
        }
        for each in found
    ]  # fmt: skip
    if not rows and not options.json:
        warn(f"there are no presets in {presets.default_root()} yet. `trainyard keep RUN NAME` saves one.")
    for each in found if not options.json else ():
        if each.problem:
            warn(each.problem)
    return say_rows(options, rows, ("name", "what"))


def _training(spec: RunSpec) -> str:
    if spec.script is not None:
        return shlex.join([spec.script.name, *spec.script.arguments])
    return f"{spec.own_recipe.name}, {spec.framework} {spec.strategy}"
