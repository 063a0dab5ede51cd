"""The rows of the tab Outputs."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from core.language import tr, tr_noop
from core.runs.outputs import OutputFile
from core.text import disk
from gui.style.formatting import moment
from gui.viewmodels.table_text import TableText

COLUMNS = (tr_noop("File"), tr_noop("Size"), tr_noop("Time"))


def output_texts(file: OutputFile, now: float) -> tuple[str, ...]:
    """Return the cells of a file; `now` in unix seconds."""
    return file.name, disk(file.size_bytes), moment(file.modified, now)


def output_table(files: Sequence[OutputFile], now: float) -> TableText:
    """Return the table of these files as text; `now` in unix seconds."""
    return TableText(
        name="outputs",
        cells=[[tr(each) for each in COLUMNS], *(output_texts(file, now) for file in files)],
        values=[
            ("file", "size_bytes", "modified"), *((file.name, file.size_bytes, _iso(file)) for file in files)
        ],
    )  # fmt: skip


def _iso(file: OutputFile) -> str:
    return datetime.fromtimestamp(file.modified, UTC).astimezone().isoformat(timespec="seconds")
