"""Curves as a drawing in SVG: the smallest and the largest value of each pixel column, as in the window.

A drawing is a part of a page, or a file of its own: SVG, or a picture (PNG) that a process with Qt makes of it.
"""

from __future__ import annotations

import math
import re
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from core import language
from core.arrays import np
from core.errors import RunError
from core.language import tr, tr_plural
from core.palette import ON_LIGHT
from core.results.curves import MIN_MAX, Member, group_curve
from core.results.page import Markup, element, joined
from core.series.report import check_free, export_bytes
from core.series.series import STEP, Axis, Series
from core.system.folders import writing
from core.system.helper_process import HelperProcess, clean_environment
from core.system.own_processes import own_command
from core.text import short

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from core.series.min_max_tree import Floats


WIDTH, HEIGHT = 720, 280
LEFT, TOP, RIGHT, BOTTOM = 66, 10, 32, 44
INNER_WIDTH, INNER_HEIGHT = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM
FINE = 10
"""Units of a path in a pixel, so that its numbers are whole and short."""
COLOURS = 12
"""Colours that the page has; more lines are dashed."""
LOG_RATIO = 1000.0
"""Positive values that differ by more than this factor are drawn on a logarithmic scale."""
TICKS = 5
CENTRE_PX = 4
"""How far below the middle of a text its base line is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A curve with its name, and the number that chooses its colour."""

    label: str
    colour: int
    series: Series
    axis: Axis = STEP
    unit: float = 1.0
    """By which the values are divided."""
    group: Sequence[Series] = ()
    """Of runs that differ only in the seed, all their series: their mean is drawn, with a band from min to max."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """Curves that are drawn together."""

    name: str
    """How a file with it is called, without a suffix: `loss`."""
    title: str
    lines: Sequence[Line]
    along: str
    """What the horizontal axis counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawing:
    """A chart as elements of SVG, which fill `WIDTH` and `HEIGHT`."""

    heading: str
    content: tuple[Markup, ...]
    """The grid and the lines."""
    lines: Sequence[Line]
    """The lines that have a value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """The range of an axis, and where a value lies on it."""

    low: float
    high: float
    is_log: bool = False

    def place(self, values: Floats) -> Floats:
        """Return the shares of the range, 0 to 1, shape (n,); NaN for what has no place."""
        if not self.is_log:
            # Halves, so that the difference of the largest numbers is no infinity.
            placed: Floats = (values / 2 - self.low / 2) / (self.high / 2 - self.low / 2)
            return placed
        with np.errstate(divide="ignore", invalid="ignore"):
            span = math.log(self.high) - math.log(self.low)
            logs: Floats = (np.log(np.where(values > 0, values, np.nan)) - math.log(self.low)) / span
        return logs

    def ticks(self) -> list[float]:
        """Return round values inside the range."""
        if self.is_log:
            first, last = math.ceil(math.log10(self.low) - 1e-9), math.floor(math.log10(self.high) + 1e-9)
            every = max(1, math.ceil((last - first) / TICKS))
            return [10.0**power for power in range(first, last + 1, every)]
        rough = (self.high / TICKS) - (self.low / TICKS)
        power = 10.0 ** math.floor(math.log10(rough)) if rough > 0 else 0.0
        if not power or not math.isfinite(power):
            return [self.low, self.high]
        step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough * (1 - 1e-9))
        numbers = range(math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9) + 1)
        return [number * step for number in numbers]


def chart(title: str, lines: Sequence[Line], pixels: int, *, name: str, along: str) -> Markup:
    """Return a figure with these curves; the empty text if there is no finite value.

    `pixels`: the columns over which each curve is drawn. `name`: the identifier of the figure in the page. `along`:
    what the horizontal axis counts.
    """
    drawing = draw(title, lines, pixels, along=along)
    if drawing is None:
        return Markup("")
    picture = element(
        "svg",
        element("title", drawing.heading, id=f"{name}-title"),
        element("desc", " ".join(_descriptions(drawing.lines, along)), id=f"{name}-desc"),
        *drawing.content,
        viewBox=f"0 0 {WIDTH} {HEIGHT}", role="img", aria_labelledby=f"{name}-title {name}-desc",
    )
    heading = element("figcaption", drawing.heading)
    return element("figure", heading, picture, _legend(drawing.lines), class_="chart")


def draw(title: str, lines: Sequence[Line], pixels: int, *, along: str) -> Drawing | None:
    """Return these curves as elements of SVG; None if there is no finite value. The arguments are those of `chart`."""
    lines = [line for line in lines if len(line.series)]
    if not lines:
        return None
    drawn_series = [(line, each) for line in lines for each in line.group or (line.series,)]
    ends = [line.axis.place(_column(line, each)[[0, -1]]).tolist() for line, each in drawn_series]
    low, high = min(first for first, _ in ends), max(last for _, last in ends)
    across = Scale(low=low, high=high) if high > low else Scale(low=low - 0.5, high=high + 0.5)
    drawn = [_drawn(line, across, pixels) for line in lines]
    values = [y for curves, band in drawn for y in (*(y for _, y in curves), *band[1:])]
    finite = np.concatenate([y[np.isfinite(y)] for y in values])
    if not len(finite):
        return None
    up = _vertical(float(finite.min()), float(finite.max()))
    paths = [_band(line, across.place(x), up.place(below), up.place(above))
             for line, (_, band) in zip(lines, drawn, strict=True) if band for x, below, above in [band]]
    paths += [_path(line, across.place(x), up.place(y))
              for line, (curves, _) in zip(lines, drawn, strict=True) for x, y in curves]
    return Drawing(
        heading=tr("{title} (logarithmic scale)", title=title) if up.is_log else title, lines=lines,
        content=(
            *_grid(across, up, along, whole=all(line.axis == STEP for line in lines)),
            element("g", *paths, class_="lines", transform=f"translate({LEFT} {TOP}) scale({1 / FINE:g})"),
        ),
    )


def _column(line: Line, series: Series) -> Floats:
    return series.steps if line.axis.column == "step" else series.times


def _drawn(line: Line, across: Scale, pixels: int) -> tuple[list[tuple[Floats, Floats]], tuple[Floats, ...]]:
    """Return the curves of a line, positions and values, and its band: positions, lower and upper ends, or nothing.

    A group has a curve of its mean, and one of each run where not all go on.
    """
    span = across.low, across.high
    if len(line.group) < 2:
        x, y = line.series.view(line.axis, *span, pixels)
        return [(x, y / line.unit)], ()
    found = group_curve([Member(series=each, axis=line.axis) for each in line.group], span, pixels, 0.0, MIN_MAX)
    rest = [(x, y) for x, y in found.rest if np.isfinite(y).any()]
    curves = [(x, y / line.unit) for x, y in ((found.x, found.mean), *rest)]
    return curves, (found.x, found.low / line.unit, found.high / line.unit)


def _vertical(low: float, high: float) -> Scale:
    if low > 0 and high / low > LOG_RATIO:
        return Scale(low=low, high=high, is_log=True)
    margin = (high / 2 - low / 2) * 0.1 or abs(low) * 0.1 or 1.0
    limit = float(np.finfo(np.float64).max)
    below = max(low - margin, 0.0 if low >= 0 else -limit)
    return Scale(low=below, high=min(high + margin, limit))


def _grid(across: Scale, up: Scale, along: str, *, whole: bool) -> Iterator[Markup]:
    """Yield lines at round values, and their numbers. Readers of the description do not need them.

    `whole`: whether the horizontal axis counts.
    """
    parts = []
    for value, share in _placed(up):
        place = TOP + INNER_HEIGHT * (1 - share)
        y = f"{place:.1f}"
        parts.append(element("line", x1=f"{LEFT}", x2=f"{WIDTH - RIGHT}", y1=y, y2=y))
        # Not `dy`, which Qt does not know.
        below = f"{place + CENTRE_PX:.1f}"
        parts.append(element("text", tick_text(value), x=f"{LEFT - 6}", y=below, text_anchor="end"))
    for value, share in _placed(across):
        if whole and value != int(value):
            continue
        x = f"{LEFT + INNER_WIDTH * share:.1f}"
        parts.append(element("line", x1=x, x2=x, y1=f"{TOP}", y2=f"{HEIGHT - BOTTOM}"))
        parts.append(element("text", tick_text(value), x=x, y=f"{HEIGHT - BOTTOM + 16}", text_anchor="middle"))
    middle = f"{LEFT + INNER_WIDTH // 2}"
    parts.append(element("text", along, x=middle, y=f"{HEIGHT - 8}", text_anchor="middle"))
    yield element("g", *parts, class_="grid", aria_hidden="true")


def _placed(scale: Scale) -> list[tuple[float, float]]:
    values = scale.ticks()
    return list(zip(values, scale.place(np.array(values, dtype=np.float64)).tolist(), strict=True))


def tick_text(value: float) -> str:
    """Return a finite number at an axis, with thin spaces between thousands."""
    if value == int(value) and 1000 <= abs(value) < 1e9:
        return f"{int(value):,}".replace(",", "\u2009")
    return f"{value:.6g}" if value == int(value) else f"{value:.4g}"


def _path(line: Line, x: Floats, y: Floats) -> Markup:
    """Return a line through these shares of the drawing, with gaps where a value is not finite."""
    present = np.isfinite(x) & np.isfinite(y)
    xs, ys = (each.tolist() for each in _units(np.where(present, x, 0.0), np.where(present, y, 0.0)))
    words: list[str] = []
    before: tuple[int, int] | None = None
    for here, is_there in zip(zip(xs, ys, strict=True), present.tolist(), strict=True):
        if not is_there:
            before = None
            continue
        if before is None:
            words.append(f"M{here[0]} {here[1]}h0")  # a point alone is a dot, as the ends of lines are round
        elif here != before:
            words.append(f"l{here[0] - before[0]} {here[1] - before[1]}")
        before = here
    return element("path", d="".join(words).replace(" -", "-"), class_=line_class(line))


def _units(x: Floats, y: Floats) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return shares of the drawing in the units of a path, shape (n,) each."""
    xs, ys = np.rint(x * INNER_WIDTH * FINE), np.rint((1 - y) * INNER_HEIGHT * FINE)
    return xs.astype(np.int64), ys.astype(np.int64)


def _band(line: Line, x: Floats, below: Floats, above: Floats) -> Markup:
    """Return the area between shares of the drawing, one for each stretch without a gap."""
    present = np.flatnonzero(np.isfinite(x) & np.isfinite(below) & np.isfinite(above))
    words = []
    for stretch in np.split(present, np.flatnonzero(np.diff(present) > 1) + 1):
        if len(stretch) > 1:
            around = np.concatenate([stretch, stretch[::-1]])
            xs, ys = _units(x[around], np.concatenate([above[stretch], below[stretch[::-1]]]))
            moves = zip(np.diff(xs).tolist(), np.diff(ys).tolist(), strict=True)
            words.append(f"M{xs[0]} {ys[0]}" + "".join(f"l{dx} {dy}" for dx, dy in moves if dx or dy) + "z")
    return element("path", d="".join(words).replace(" -", "-"), class_=f"band b{line.colour % COLOURS}")


def line_class(line: Line) -> str:
    """Return the classes of a line, which give it its colour and its dashes."""
    dashed = " dashed" * (line.colour // COLOURS % 2)
    return f"c{line.colour % COLOURS}{dashed}"


def _legend(lines: Sequence[Line]) -> Markup:
    if len(lines) < 2:
        return Markup("")
    items = []
    for line in lines:
        key = element("span", class_=f"key {line_class(line)}", aria_hidden="true")
        items.append(element("li", key, " ", line.label))
    return element("ul", joined(items), class_="legend")


def _descriptions(lines: Sequence[Line], along: str) -> Iterator[str]:
    """Yield a sentence on each curve, for screen readers."""
    for line in lines:
        if len(line.group) > 1:
            yield _group_description(line, along)
            continue
        series = line.series
        finite = series.values[np.isfinite(series.values)] / line.unit
        if not len(finite):
            yield tr("{label}: no finite value.", label=line.label)
            continue
        begin, end = line.axis.place(_column(line, series)[[0, -1]]).tolist()
        yield tr_plural(
            "{label}: {count} value, {along} {begin} to {end}; first {first}, last {last}, smallest {low}, "
            "largest {high}.",
            "{label}: {count} values, {along} {begin} to {end}; first {first}, last {last}, smallest {low}, "
            "largest {high}.",
            len(series), label=line.label, along=along, begin=tick_text(begin), end=tick_text(end),
            first=short(float(finite[0])), last=short(float(finite[-1])), low=short(float(finite.min())),
            high=short(float(finite.max())),
        )


def _group_description(line: Line, along: str) -> str:
    ends = np.concatenate([line.axis.place(_column(line, each)[[0, -1]]) for each in line.group])
    values = np.concatenate([each.values for each in line.group])
    finite = values[np.isfinite(values)] / line.unit
    if not len(finite):
        return tr("{label}: no finite value.", label=line.label)
    return tr(
        "{label}: {along} {begin} to {end}; last values {last}, smallest {low}, largest {high}.",
        label=line.label, along=along, begin=tick_text(float(ends.min())), end=tick_text(float(ends.max())),
        last=", ".join(short(each.last) for each in line.group), low=short(float(finite.min())),
        high=short(float(finite.max())),
    )


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
    legend, rows = _svg_legend(drawing.lines)
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
    )
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{picture}\n'.encode("utf-8", "replace")


def _svg_legend(lines: Sequence[Line]) -> tuple[list[Markup], int]:
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

    `form`: `svg` or `png`. Raises `ValueError` with a sentence if one of the files exists, unless `force`, and before
    any is written; `RunError` with a sentence if the files cannot be drawn or written.
    """
    drawings = {name: data for name, each in _named(charts).items() if (data := svg(each)) is not None}
    if not drawings:
        raise RunError(tr("No plot was written to {folder}: there is no finite value to draw.", folder=folder))
    paths = [folder / f"{name}.{form}" for name in drawings]
    for path in paths:
        check_free(path, force=force)
    files = _pictures(drawings) if form == "png" else drawings
    with writing(folder, tr("Name another folder.")):
        folder.mkdir(parents=True, exist_ok=True)
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
            reason = lines[-1] if lines else tr("the process that draws ended early.")
            raise RunError(
                tr("The plots could not be drawn as PNG: {reason} Write them as SVG instead.", reason=reason)
            )
        return {name: path.with_suffix(".png").read_bytes() for name, path in files.items()}
