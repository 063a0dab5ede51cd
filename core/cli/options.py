"""The options of the command line. `core.cli.run_options` turns those of `run` into choices."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NoReturn

from core.catalog.frameworks import FRAMEWORKS
from core.catalog.strategies import LAUNCH_MODES, STRATEGIES, strategies_of
from core.config.validation import where
from core.history import index
from core.language import tr, tr_noop, tr_plural
from core.launchers.loopback import ALLOW
from core.schema.setting import Flag, OneOf, Setting, settings_of
from core.schema.settings import Checkpoints, ReleaseWatch, StopTimeouts, Training
from core.schema.spec import RunSpec
from core.table import wrap
from core.text import join_names

WRONG_USE = 2
INTERRUPTED = 130
"""The exit code of a shell for a command ended by SIGINT: 128 + SIGINT."""


class Parser(argparse.ArgumentParser):
    """A parser that reports an error in plain sentences, without the usage. Options cannot be abbreviated."""

    def __init__(self, *, add_help: bool = True, **given: Any) -> None:  # noqa: ANN401 (as the base class)
        super().__init__(allow_abbrev=False, add_help=False, formatter_class=_HelpFormatter, **given)
        if add_help:
            self.add_argument("-h", "--help", action="help", help=tr("show this help message and exit"))

    def error(self, message: str) -> NoReturn:
        """Exit with the sentences for one of argparse's messages."""
        self.exit(WRONG_USE, tr("trainyard: {plain} See {prog} --help.\n", plain=_plain(message), prog=self.prog))

    def refuse(self, words: Sequence[str]) -> NoReturn:
        """Exit with the sentences for arguments that this parser does not have."""
        from difflib import get_close_matches  # the window, which is never refused, starts without it

        unknown = tr_plural("{words} is not an argument of {prog}.", "{words} are not arguments of {prog}.",
                            len(words), words=" ".join(words), prog=self.prog)
        if alike := get_close_matches(words[0], self._option_string_actions, n=1, cutoff=0.8):
            hint = tr(" Did you mean {option}?", option=alike[0])
        else:
            hint = tr(" Arguments for your own script come after --.") if self.prog.split()[1:] == ["run"] else ""
        self.exit(
            WRONG_USE, tr("trainyard: {unknown}{hint} See {prog} --help.\n", unknown=unknown, hint=hint, prog=self.prog)
        )


class _HelpFormatter(argparse.HelpFormatter):
    """Write the help in the language in use; a Chinese character takes two columns."""

    def add_usage(
        self, usage: str | None, actions: Iterable[argparse.Action],
        groups: Iterable[argparse._MutuallyExclusiveGroup], prefix: str | None = None,
    ) -> None:
        super().add_usage(usage, actions, groups, tr("usage: ") if prefix is None else prefix)

    def start_section(self, heading: str | None) -> None:
        super().start_section(heading and tr(heading))

    def _split_lines(self, text: str, width: int) -> list[str]:
        return wrap(text, width)

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return "\n".join(indent + line for line in wrap(text, width - len(indent)))


HEADINGS = (tr_noop("positional arguments"), tr_noop("options"))
"""The headings that argparse gives."""

_PLAIN = (
    (r"argument COMMAND: invalid choice: (?P<given>'.*?') .*", tr_noop("There is no command {given}.")),
    (r"argument (?P<name>\S+): invalid int value: (?P<given>.*)", tr_noop("{name} is {given}. Give a whole number.")),
    (r"argument (?P<name>\S+): invalid float value: (?P<given>.*)", tr_noop("{name} is {given}. Give a number.")),
    (r"argument (?P<name>\S+): invalid choice: (?P<given>'.*?') \(choose from (?P<known>.*)\)",
     tr_noop("{name} is {given}. Choose one of: {known}.")),
    (r"argument (?P<name>\S+): expected one argument", tr_noop("{name} needs a value.")),
    (r"argument (?P<name>\S+): ignored explicit argument .*", tr_noop("{name} takes no value.")),
    (r"the following arguments are required: (?P<names>.*)", tr_noop("Missing: {names}.")),
)
"""Messages of argparse, and plain sentences in their place."""


def _plain(message: str) -> str:
    for pattern, sentence in _PLAIN:
        if found := re.fullmatch(pattern, message, re.DOTALL):
            return tr(sentence, **found.groupdict())
    return f"{message[:1].upper()}{message[1:]}."


def common() -> Parser:
    """Return the options of all commands. They have no default here, so that they may also precede the command."""
    parser = Parser(add_help=False)
    parser.add_argument(
        "--runs", type=Path, default=argparse.SUPPRESS, metavar="DIR",
        help=tr("the folder of the runs; default: {default_root}", default_root=index.default_root()),
    )
    return parser


def window_options() -> Parser:
    """Return the options without a command, which opens the window."""
    parser = Parser(prog="trainyard", parents=[common()], add_help=False)
    add_host(parser)
    return parser


def add_host(parser: argparse.ArgumentParser) -> None:
    """Add the option that opens the window on another machine."""
    parser.add_argument(
        "--host", default=argparse.SUPPRESS, metavar="HOST",
        help=tr("open the window on the runs of another machine: USER@HOST, or a name that `trainyard hosts` lists"),
    )


def add_run_options(parser: argparse.ArgumentParser) -> None:
    _add_choices(parser)
    parser.add_argument("--name", help=tr("name of the run; default: the recipe's name"))
    parser.add_argument(
        "--setup", metavar="NAME", help=tr("a preset that `trainyard keep` saved; takes only --devices and --name")
    )
    _add_script(parser)
    _add_settings(parser)
    add_detach(parser)


def add_recipe_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of `run` that are for recipes, without `--name`: those of a command that starts several runs."""
    _add_choices(parser)
    _add_settings(parser)
    # `run_options.choices` also reads those for scripts and presets.
    parser.set_defaults(script=None, module=None, setup=None, cwd=None, env=[], launch=None, expression="", rules="")


def _add_choices(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    frameworks = _one_of(row.id for row in FRAMEWORKS)
    strategies = "; ".join(f"{row.title}: {_one_of(each.name for each in strategies_of(row.id))}" for row in FRAMEWORKS)
    add("recipe", metavar="RECIPE", nargs="?", help=tr("name of a built-in recipe, or a Python file"))
    add("--framework", help=tr("{frameworks}; default: pytorch", frameworks=frameworks))
    add("--strategy", help=tr("{strategies}; default: one that fits the number of devices", strategies=strategies))
    add("--devices", default="", metavar="ID,ID", help=tr("ids that `trainyard devices` lists, or gpu:0 for GPU 0"))
    add_open_ports(parser)
    add("--set", action="append", default=[], metavar="NAME=VALUE", help=tr("a setting of the recipe; can be repeated"))
    add(
        "--python", metavar="PATH",
        help=tr("the Python that trains (`trainyard pythons` lists them); default: for a recipe, one that has the "
        "framework; for a script, the active environment, or one next to the script, or Trainyard's own"),
    )


def _add_script(parser: argparse.ArgumentParser) -> None:
    parser.epilog = tr("Arguments after -- are passed to the script.")
    add = parser.add_argument_group(tr("your own program, instead of a recipe")).add_argument
    modes = _one_of(mode.name for mode in LAUNCH_MODES)
    add("--script", metavar="FILE", help=tr("a Python program that trains; it is run unchanged"))
    add("--module", metavar="NAME", help=tr("a module to run, as with python -m NAME"))
    add("--cwd", metavar="DIR", help=tr("the folder to run it in; default: the current folder"))
    add(
        "--env", action="append", default=[], metavar="NAME=VALUE",
        help=tr("an environment variable; NAME alone takes the value from the environment at each start, and does not "
        "store it; can be repeated"),
    )
    add(
        "--launch", metavar="HOW",
        help=tr("{modes}: one process that sees all devices, or one process per device as with torchrun; "
        "default: chosen from the source", modes=modes),
    )
    add(
        "--expression", default="", metavar="REGEX",
        help=tr("how to read metrics from the log: "
                "a regular expression with a named group for each, as (?P<loss>\\S+)"),
    )
    add(
        "--rules", default="", metavar="FILE",
        help=tr("rules for reading the log, as `trainyard try RUN --point` makes them; default: SCRIPT.rules.json "
                "beside the script, if there is one; none: no rules"),
    )


def _add_settings(parser: argparse.ArgumentParser) -> None:
    """Add the options of all settings. Two of checkpoints share an option."""
    add_settings(parser, Training)
    add_settings(parser, Checkpoints).add_argument(
        "--checkpoint-every", metavar="TEXT",
        help=tr("epoch, '5 epochs', '100 steps', '10 minutes', auto or never; default: auto, which costs little time"),
    )
    for owner in (StopTimeouts, ReleaseWatch, RunSpec):
        add_settings(parser, owner)


def add_settings(parser: argparse.ArgumentParser, owner: type) -> argparse._ArgumentGroup:
    """Add an option for each setting of a dataclass, by groups; return the last of these."""
    groups: dict[str, argparse._ArgumentGroup] = {}
    for row in settings_of(owner).values():
        if row.group not in groups:
            groups[row.group] = parser.add_argument_group(tr(row.group))
        if row.flag:
            _add_setting(groups[row.group], row)
    return groups[row.group]


def _add_setting(group: argparse._ArgumentGroup, row: Setting) -> None:
    """Add the option of a setting. It is None where it was not given."""
    words = tr(row.help)
    if isinstance(row.kind, OneOf):
        words = tr("{help}; choose {known}", help=words, known=_one_of(row.kind.titles))
    if row.only:
        words = tr("{help}; for {where} only", help=words, where=where(row))
    if not isinstance(row.kind, Flag) or row.default:
        default = row.default if isinstance(row.kind, OneOf) else row.default_words
        words = tr("{help}; default: {default}", help=words, default=default)
    words = words.replace("%", "%%")  # which argparse fills in
    if not isinstance(row.kind, Flag):
        group.add_argument(row.flag, type=row.kind.read, metavar=row.kind.metavar, help=words)
    elif row.default:
        group.add_argument(row.flag, action=argparse.BooleanOptionalAction, default=None, help=words)
    else:
        group.add_argument(row.flag, action="store_true", default=None, help=words)


def add_yes(parser: argparse.ArgumentParser) -> None:
    """Add the option of the commands that execute what a run or a preset names."""
    parser.add_argument(
        "--yes", action="store_true", help=tr("do not ask when the run or preset belongs to another user")
    )


def add_open_ports(parser: argparse.ArgumentParser) -> None:
    """Add the option of the commands that start or resume a run with open ports."""
    opening = _one_of(row.name for row in STRATEGIES if row.needs_addresses)
    parser.add_argument(
        ALLOW, action="store_true", default=None,
        help=tr("for {opening}: run it although other users can connect to its ports without a password",
                opening=opening),
    )


def add_detach(parser: argparse.ArgumentParser) -> None:
    """Add the option of the commands that start or resume a run."""
    parser.add_argument("--detach", action="store_true", help=tr("return at once and leave the run in the background"))


def _one_of(names: Iterable[str]) -> str:
    return join_names(names, "or")
