"""Keep rules in a file: a JSON file beside the script, and one in the run to which a rule was taught.

{
  "version": 1,
  "rules": [
    "round {step}: total cost : {metric cost}"
  ]
}
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from core.errors import RunError
from core.language import tr
from core.metrics.rules.rule_set import parse_rules
from core.schema.files import not_written, parse_json, read_whole, write_whole
from core.schema.spec import MAX_RULES

if TYPE_CHECKING:
    from collections.abc import Iterable

    from core.metrics.rules.rule import Rule
    from core.schema.settings import Script

VERSION = 1
SUFFIX = ".rules.json"
MAX_BYTES = 1 << 18
NONE = "none"
"""In place of a file: no rules, although there is a file beside the script."""


def beside(script: Script, working_dir: str) -> Path:
    """Return where the rules of a script are kept: `train.rules.json` beside `train.py`; for a module in its folder."""
    if script.module:
        return Path(working_dir, f"{script.module}{SUFFIX}")
    path = Path(script.path)
    return path.with_name(f"{path.stem if path.suffix == '.py' else path.name}{SUFFIX}")


def chosen_file(given: str, script: Script, working_dir: str) -> Path | None:
    """Return the file of rules to use: the one that is given, or one beside the script; None for no rules."""
    if given == NONE:
        return None
    if given:
        return Path(working_dir, Path(given).expanduser())
    usual = beside(script, working_dir)
    return usual if usual.is_file() else None


def read_rules(path: Path) -> tuple[str, ...]:
    """Return the rules in a file. Raises `ValueError` with a sentence that names the file if it cannot be used."""
    try:
        found = parse_json(read_whole(path, MAX_BYTES, follow_link=True))
    except OSError as error:
        raise ValueError(
            tr("The rules {path} cannot be read: {strerror}.", path=path, strerror=error.strerror or error)
        ) from error
    except ValueError as error:
        raise ValueError(tr("The rules {path} cannot be used. {error}", path=path, error=error)) from error
    rules = found.get("rules") if isinstance(found, dict) else None
    if not isinstance(rules, list) or not all(isinstance(rule, str) for rule in rules) or len(rules) > MAX_RULES:
        raise ValueError(
            tr(
                'The rules {path} cannot be used: a file of rules is an object with a list of at most {count} texts, '
                '"rules".',
                path=path, count=MAX_RULES,
            )
        )  # fmt: skip
    if isinstance(found.get("version"), int) and found["version"] > VERSION:
        raise ValueError(tr("The rules {path} were written by a newer Trainyard. Update Trainyard.", path=path))
    try:
        parse_rules(rules)
    except ValueError as error:
        raise ValueError(tr("The rules {path} cannot be used. {error}", path=path, error=error)) from error
    return tuple(rules)


def write_rules(path: Path, rules: Iterable[Rule | str]) -> None:
    """Replace a file of rules. Raises `RunError` with a sentence if it cannot be written; the old file stays then."""
    text = json.dumps({"version": VERSION, "rules": [str(rule) for rule in rules]}, indent=2, ensure_ascii=False)
    try:
        mode = path.stat().st_mode & 0o777 if path.exists() else None
        write_whole(path, text + "\n")
        if mode is not None:
            path.chmod(mode)
    except OSError as error:
        raise RunError(
            not_written(
                path, error, if_full=tr("Free some space."), otherwise=tr("Check the permissions of its folder.")
            )
        ) from error
