"""Commands on runs as things to be started again: their shell line, setups kept by name, and how to read their log."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from core.cli.commands.common import find
from core.cli.output import say, say_json, say_rows, warn
from core.config import presets
from core.config.shell_command import shell_line
from core.errors import RunError
from core.metrics import expression_trial

if TYPE_CHECKING:
    from argparse import Namespace

    from core.schema.spec import RunSpec


def command(given: Namespace) -> int:
    """Print the line that starts the same from a shell: a script without Trainyard."""
    found = find(given)
    found.catch_up()
    cores = {name: tuple(fields.get("cores") or ()) for name, fields in found.facts.devices.items()}
    line = shell_line(found.spec(), cores)
    if given.json:
        say_json({"run": found.id, "command": line})
    else:
        say(line)
    return 0


def keep(given: Namespace) -> int:
    """Keep what a run trained, and how, as a setup to be started again: `trainyard run --setup NAME`."""
    found = find(given)
    path = presets.path_of(given.name, presets.default_root())
    replaces = path.exists()
    try:
        presets.keep(found.spec(), path)
    except OSError as error:
        raise RunError(f"{path} cannot be written: {error.strerror}. Name another file.") from error
    if given.json:
        say_json({"run": found.id, "setup": path.stem, "path": str(path), "replaced": replaces})
    else:
        say(f"{path} (in place of what was kept there)" if replaces else str(path))
    return 0


def try_expression(given: Namespace) -> int:
    """Try a regular expression on the end of a run's log, before it is given to `run --expression`."""
    found = find(given)
    outcome = expression_trial.try_expression(given.expression, found.dir)
    if given.json:
        say_json({
            "run": found.id, "lines": outcome.lines, "matched": outcome.matched, "problem": outcome.problem,
            "readings": [{"step": each.step, "epoch": each.epoch, "values": each.values} for each in outcome.readings],
        })  # fmt: skip
    else:
        say(expression_trial.describe_result(outcome))
    return 0


def list_setups(given: Namespace) -> int:
    """The setups that are kept by name."""
    found = presets.listed(presets.default_root())
    rows = [
        {
            "name": each.name, "path": str(each.path), "what": _what(each.spec) if each.spec else None,
            "problem": each.problem or None,
        }
        for each in found
    ]  # fmt: skip
    if not rows and not given.json:
        warn(f"there are no setups in {presets.default_root()} yet. `trainyard keep RUN NAME` keeps one.")
    for each in found if not given.json else ():
        if each.problem:
            warn(each.problem)
    return say_rows(given, rows, ("name", "what"))


def _what(spec: RunSpec) -> str:
    if spec.script is not None:
        return shlex.join([spec.script.name, *spec.script.arguments])
    return f"{spec.own_recipe.name}, {spec.framework} {spec.strategy}"
