"""Charts as files of their own: drawings (SVG), or pictures (PNG) that a process with Qt makes of the drawings."""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

from core import language
from core.errors import RunError
from core.language import tr
from core.palette import ON_LIGHT
from core.reports.chart import FINE, HEIGHT, INNER_WIDTH, LEFT, RIGHT, WIDTH, Chart, Line, draw, line_class
from core.reports.page import Markup, element
from core.schema.files import not_written
from core.series.report import check_free, export_bytes
from core.system.helper_process import HelperProcess, clean_environment
from core.system.own_processes import own_command

SVG, PNG = "svg", "png"
FORMS = (SVG, PNG)
DRAWER = "gui.plots.svg_to_png"
"""The module of the process that makes pictures of drawings. It loads Qt, which no command does."""
HEAD_PX, ROW_PX, KEY_PX, LETTER_PX, BETWEEN_PX = 28, 18, 22, 6.6, 18
"""Heights of the title and of a row of the legend; widths of a key, of a letter on average, and between two keys."""
MAX_LETTERS = 90
STYLE = (
    ".head{font-size:14px;font-weight:bold;fill:#1b2129}.legend text{fill:#1b2129}.grid line{stroke:#d5dbe3}"
    ".grid text{fill:#58626f}.legend line{stroke-width:3}.legend .dashed{stroke-dasharray:6 4}"
    f".lines path{{fill:none;stroke-width:{1.5 * FINE:g};stroke-linecap:round;stroke-linejoin:round}}"
    ".lines .band{stroke:none;fill-opacity:.2}"
    f".lines .dashed{{stroke-dasharray:{6 * FINE} {4 * FINE}}}"
)


def svg(chart: Chart) -> bytes | None:
    """Return a chart as a file of SVG on a light ground; None if it has no finite value."""
    drawing = draw(chart.title, chart.lines, INNER_WIDTH, along=chart.along)
    if drawing is None:
        return None
    legend, rows = _legend(drawing.lines)
    height = HEAD_PX + HEIGHT + rows * ROW_PX
    colours = "".join(
        f".c{number}{{stroke:{colour}}}.lines .b{number}{{fill:{colour}}}" for number, colour in enumerate(ON_LIGHT)
    )
    picture = element(
        "svg",
        element("title", drawing.heading),
        element("style", Markup(STYLE + colours)),
        element("rect", width=f"{WIDTH}", height=f"{height}", fill="#ffffff"),
        element("text", drawing.heading, x=f"{LEFT}", y="19", class_="head"),
        element("g", *drawing.content, transform=f"translate(0 {HEAD_PX})"),
        element("g", *legend, class_="legend", transform=f"translate(0 {HEAD_PX + HEIGHT})"),
        xmlns="http://www.w3.org/2000/svg", viewBox=f"0 0 {WIDTH} {height}", width=f"{WIDTH}", height=f"{height}",
        font_family="sans-serif", font_size="12",
    )  # fmt: skip
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{picture}\n'.encode("utf-8", "replace")


def _legend(lines: Sequence[Line]) -> tuple[list[Markup], int]:
    """Return the names of several lines beside their keys, and in how many rows they stand."""
    if len(lines) < 2:
        return [], 0
    parts, x, row = [], float(LEFT), 0
    for line in lines:
        label = line.label if len(line.label) <= MAX_LETTERS else f"{line.label[: MAX_LETTERS - 1]}…"
        width = KEY_PX + LETTER_PX * len(label)
        if x > LEFT and x + width > WIDTH - RIGHT:
            x, row = float(LEFT), row + 1
        y = row * ROW_PX
        ends = {"x1": f"{x:.0f}", "x2": f"{x + KEY_PX - 6:.0f}", "y1": f"{y + 4}", "y2": f"{y + 4}"}
        parts.append(element("line", class_=line_class(line), **ends))
        parts.append(element("text", label, x=f"{x + KEY_PX:.0f}", y=f"{y + 8}"))
        x += width + BETWEEN_PX
    return parts, row + 1


def write_charts(charts: Iterable[Chart], folder: Path, form: str, *, force: bool) -> list[Path]:
    """Write each chart that has a finite value as a file into a folder, which is made if there is none.

    `form`: one of `FORMS`. Raises `ValueError` with a sentence if one of the files exists, unless `force`, and before
    any is written; `RunError` with a sentence if the files cannot be drawn or written.
    """
    drawings = {name: data for name, each in _named(charts).items() if (data := svg(each)) is not None}
    if not drawings:
        raise RunError(tr("No plot was written to {folder}: there is no finite value to draw.", folder=folder))
    paths = [folder / f"{name}.{form}" for name in drawings]
    for path in paths:
        check_free(path, force=force)
    files = _pictures(drawings) if form == PNG else drawings
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RunError(
            not_written(folder, error, if_full=tr("Free some space."), otherwise=tr("Name another folder."))
        ) from error
    for path, data in zip(paths, files.values(), strict=True):
        export_bytes(data, path)
    return paths


def _named(charts: Iterable[Chart]) -> dict[str, Chart]:
    """Return charts by the names of their files: metrics may be called `train/loss`."""
    found: dict[str, Chart] = {}
    for each in charts:
        base = name = re.sub(r"[^\w.@+=-]+", "-", each.name)[:100].strip(".-") or "plot"
        number = 1
        while name.casefold() in {known.casefold() for known in found}:
            number += 1
            name = f"{base}-{number}"
        found[name] = each
    return found


def _pictures(drawings: dict[str, bytes]) -> dict[str, bytes]:
    """Return a picture of each drawing. Raises `RunError` with a sentence."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        files = {name: folder / f"{at}.svg" for at, name in enumerate(drawings)}
        for name, path in files.items():
            path.write_bytes(drawings[name])
        environment = {**clean_environment(), "LANGUAGE": language.current(), "QT_QPA_PLATFORM": "offscreen"}
        words = own_command(DRAWER, str(folder))
        with HelperProcess(words, environment=environment, stderr=subprocess.PIPE) as process:
            failed = process.wait() != 0
            lines = process.errors.decode(errors="replace").strip().splitlines()
        if failed:
            raise RunError(
                tr(
                    "The plots could not be drawn as PNG: {reason} Write them as SVG instead.",
                    reason=lines[-1] if lines else tr("the process that draws ended early."),
                )
            )
        return {name: path.with_suffix(".png").read_bytes() for name, path in files.items()}
