"""The list of settings that only some strategies have, in `docs/settings.md`, made from the rows of the settings.

python -m tests.support.settings_list    # write it again
"""

import textwrap
from pathlib import Path

from core.config.validation import where
from core.schema.setting import Flag, OneOf, settings_of
from core.schema.settings import Training
from core.text import join_names

DOCUMENT = Path(__file__).parents[2] / "docs" / "settings.md"
BEGIN = "<!-- made by tests/support/settings_list.py -->\n"
END = "<!-- end of the list -->\n"
WIDTH = 120


def settings_list(owner: type) -> str:
    """Return an item for each setting of a dataclass that only some strategies have."""
    items = []
    for row in settings_of(owner).values():
        if any("." in each for each in row.only):
            option = f"{row.flag} {row.kind.metavar or ''}".strip()
            known = f"; {join_names(row.kind.titles, 'or')}" if isinstance(row.kind, OneOf) else ""
            default = "" if isinstance(row.kind, Flag) else f"; default: {row.default if known else row.default_words}"
            text = f"- `{option}` ({where(row)}{known}{default}): {row.help}"
            items.append(textwrap.fill(text, WIDTH, subsequent_indent="  ", break_on_hyphens=False) + "\n")
    return "".join(items)


def document() -> str:
    """Return the whole document with the list as it must be."""
    before, _, rest = DOCUMENT.read_text(encoding="utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}{settings_list(Training)}{END}{after}"


if __name__ == "__main__":
    DOCUMENT.write_text(document(), encoding="utf-8")
