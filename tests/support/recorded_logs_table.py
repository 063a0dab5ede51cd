"""The list of understood programs in `docs/scripts.md`, made from the recorded logs.

python -m tests.support.recorded_logs_table    # write it again
"""

import re
import textwrap
from itertools import groupby
from pathlib import Path

from tests.support.recorded_logs import recorded_logs

DOCUMENT = Path(__file__).parents[2] / "docs" / "scripts.md"
BEGIN = "<!-- made by tests/support/recorded_logs_table.py from tests/recorded_logs -->\n"
END = "<!-- end of the list -->\n"
WIDTH = 118
ORDINARY = re.compile(r"(a|two|loops|the line) ")
VERSION = re.compile(r",? (\(|\d[\d.]*\b)")


def programs() -> str:
    """Return the list: an item for each kind of program with their names, without versions and variants."""
    logs = sorted(recorded_logs(), key=lambda log: (log.kind, log.program.lower()))
    items = (
        f"**{kind}**: {'; '.join(dict.fromkeys(filter(None, (_name(log.program) for log in those))))}"
        for kind, those in groupby(logs, lambda log: log.kind)
    )
    return "".join(
        textwrap.fill(
            item, WIDTH, initial_indent="- ", subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
        )
        + "\n"
        for item in items
    )


def _name(program: str) -> str:
    """Return the name in front of the version or year; an empty text for a loop that is no public program."""
    return "" if ORDINARY.match(program) else VERSION.split(program)[0]


def document() -> str:
    """Return the whole document with the list as it must be."""
    before, _, rest = DOCUMENT.read_text(encoding="utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}{programs()}{END}{after}"


if __name__ == "__main__":
    DOCUMENT.write_text(document(), encoding="utf-8")
