"""The commands `keep`, `setups` and `command`: reuse what a run trained, and how."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from core.cli.commands.common import check_owner, find
from core.cli.output import confirm, is_interactive, say, say_json, say_rows, warn
from core.config import presets
from core.config.shell_command import shell_line
from core.errors import RunError
from core.language import tr, tr_plural
from core.runs.ownership import execution_warning
from core.schema.files import not_written
from core.table import Column
from core.text import join_names, replace_control_characters

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from pathlib import Path

    from core.config.presets import Preset
    from core.schema.spec import RunSpec


def command(options: Namespace) -> int:
    """Print a shell command that starts the same training; for a script, without Trainyard."""
    run = find(options)
    run.spec().check_startable()
    if run.owner is not None:
        name = replace_control_characters(run.id)
        warn(
            tr(
                "Run {name} belongs to {owner}. {execution_warning}",
                name=name,
                owner=run.owner,
                execution_warning=execution_warning(run.owner, run.spec()),
            )
        )
    run.catch_up()
    cores = {name: tuple(fields.get("cores") or ()) for name, fields in run.facts.devices.items()}
    line = shell_line(run.spec(), cores)
    if options.json:
        say_json({"run": run.id, "command": line})
    else:
        say(line, lines=True)
    return 0


def add_options(parser: ArgumentParser) -> None:
    """Add the argument and the option of `keep`."""
    parser.add_argument("name", metavar="NAME", help=tr("name of the preset, or the path of its file"))
    parser.add_argument(
        "--secrets", choices=("names", "values"),
        help=tr("what to store of variables that look like secrets: their names, with the values taken from the "
        "environment at each start, or their values"),
    )  # fmt: skip


def keep(options: Namespace) -> int:
    """Save what a run trained, and how, as a preset; `trainyard run --setup NAME` starts it again."""
    run = find(options)
    path = presets.path_of(options.name, presets.default_root())
    replaced = path.exists()
    spec = run.spec()
    spec.check_startable()
    check_owner(options, tr("Run {id}", id=run.id), run.owner, spec)
    if (secrets := presets.secret_names(spec)) and not _stores_values(options, secrets, path):
        spec = presets.without_values(spec, secrets)
    try:
        presets.save(spec, path)
    except OSError as error:
        raise RunError(
            not_written(path, error, if_full=tr("Free some space."), otherwise=tr("Choose another file."))
        ) from error
    if options.json:
        say_json({"run": run.id, "setup": path.stem, "path": str(path), "replaced": replaced})
    else:
        say(f"{path} (replaced)" if replaced else str(path))
    return 0


def _stores_values(options: Namespace, names: list[str], path: Path) -> bool:
    """Return whether to store the values of these variables. Raises `ValueError` if there is no terminal to ask on."""
    if options.secrets:
        return bool(options.secrets == "values")
    known = tr_plural("{names} looks like a secret", "{names} look like secrets", len(names), names=join_names(names))
    if options.json or not is_interactive():
        raise ValueError(
            tr(
                "Nothing was saved: {known}. Add --secrets names to take the value from the environment at each start, "
                "or --secrets values to store it.",
                known=known,
            )
        )
    return confirm(
        tr(
            "{known}. Store the value in {path}? Without, it is taken from the environment at each start.",
            known=known,
            path=path,
        )
    )


def list_presets(options: Namespace) -> int:
    """List the presets saved by name."""
    found = presets.read_all(presets.default_root())
    if not found and not options.json:
        warn(
            tr(
                "There are no presets in {default_root} yet. `trainyard keep RUN NAME` saves one.",
                default_root=presets.default_root(),
            )
        )
    for each in found if not options.json else ():
        if each.problem:
            warn(each.problem)
    return say_rows(options, COLUMNS, found)


def _training(spec: RunSpec) -> str:
    if spec.script is not None:
        return shlex.join([spec.script.name, *spec.script.arguments])
    return f"{spec.own_recipe.name}, {spec.framework} {spec.strategy}"


COLUMNS: tuple[Column[Preset], ...] = (
    Column("name", lambda each: each.name),
    Column("path", lambda each: str(each.path), None),
    Column("what", lambda each: _training(each.spec) if each.spec else None),
    Column("problem", lambda each: each.problem or None, None),
)
