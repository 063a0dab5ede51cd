"""The command line. Without a command it opens the window.

Exit codes: 0 finished, 1 failed, 2 wrong use (one sentence on stderr), 3 stopped or paused, 4 lost.
"""

from __future__ import annotations

import io
import os
import sys
from argparse import Namespace
from collections.abc import Callable, Sequence

from core import language
from core.cli.options import INTERRUPTED, WRONG_USE, window_options
from core.errors import RunError
from core.history import index
from core.language import tr


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command, and return its exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if not {"--json", "--stdio"} & {*words}:  # programs read one language
        language.use(language.from_environment(os.environ))
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # what the terminal's encoding does not have
    try:
        if (options := _window_options(words)) is not None:
            return window(options)
        options = _parse(words)
        _check_host(options)
        command: Callable[[Namespace], int] = version if options.version else options.command
        return command(options)
    except (ValueError, RunError) as error:
        _warn(str(error))
        return WRONG_USE
    except KeyboardInterrupt:
        _warn(tr("Interrupted. Runs are not affected."))
        return INTERRUPTED
    except BrokenPipeError:
        # The reader of the output has gone, as in `trainyard runs | head`.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        _warn(tr("{filename} cannot be used: {strerror}.", filename=error.filename or tr("The output"),
                 strerror=error.strerror))
        return WRONG_USE


def _warn(text: str) -> None:
    from core.cli.output import warn  # with it much that the window does not need

    warn(text)


def _window_options(words: list[str]) -> Namespace | None:
    """Return the options if these words only open the window; None if they may be anything else.

    The window opens sooner when the commands, and what they need, are not imported.
    """
    if words and (len(words) != 2 or words[0] not in {"--runs", "--host"} or words[1].startswith("-")):
        return None
    return window_options().parse_args(words, Namespace(runs=index.default_root(), host=None))


def _parse(words: list[str]) -> Namespace:
    from core.cli.parser import command_parser

    end = words.index("--") if "--" in words else len(words)  # the words after it belong to the script
    # The namespace has the default of `--runs`: a default of the option would overwrite one before the command.
    given = Namespace(runs=index.default_root(), host=None, arguments=words[end + 1 :])
    options, unknown = command_parser(window).parse_known_args(words[:end], given)
    if unknown:
        options.parser.refuse(unknown)
    return options


def version(options: Namespace) -> int:
    """Print the version: that of the installed distribution, or that of the source tree when none is installed."""
    from core.cli.output import say
    from core.system.installation import version as installed

    del options
    say(f"trainyard {installed()}")
    return 0


def window(options: Namespace) -> int:
    from gui.app import main as open_window

    return open_window(options.runs, options.host)


def _check_host(options: Namespace) -> None:
    """Raise `ValueError` if `--host` is given with something that it is not for."""
    if options.host is None:
        return
    if options.command is not window:
        raise ValueError(
            tr("--host opens the window on the runs of another machine. To run one command there: ssh {host} trainyard "
               "{command}", host=options.host, command=options.parser.prog.rpartition(" ")[2])
        )
    if options.runs != index.default_root():
        raise ValueError(
            tr("--runs is a folder of this machine, and --host opens the runs of another one. To name a folder there: "
               "trainyard hosts add ADDRESS --command 'trainyard --runs DIR'")
        )


if __name__ == "__main__":
    sys.exit(main())
