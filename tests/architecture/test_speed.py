"""No assertion depends on how fast the machine is: it compares no readings of a clock.

Measurements belong into `benchmarks`; waits for a condition are in `tests/support/waiting.py`.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import core

ROOT = Path(core.__file__).resolve().parents[1]
TESTS = sorted((ROOT / "tests").rglob("*.py"))
CLOCKS = {"time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "thread_time", "process_time", "elapsed"}
THROUGH = {"abs", "max", "min", "sum", "sorted", "round", "float", "int", "percentile", "median", "mean", "approx"}
"""Functions whose result is a reading of a clock if an argument is."""
BETWEEN = "a time lies between two looks at the same clock"
WAITS = "the limit of a wait in a process of its own, `PATIENCE_S`"
BY_THE_CLOCK = {
    "tests/pictures/camera.py::_settle": WAITS,
    "tests/process/test_queue.py::test_a_time_limit_stops_the_run_and_lets_others_plan": BETWEEN,
    "tests/process/test_queue_commands.py::test_times_and_sizes": BETWEEN,
    "tests/support/real_window.py::_until": WAITS,
}
"""Functions that must compare readings of a clock, and why the outcome does not depend on the speed of the machine."""


def comparisons(source: str) -> list[tuple[str, int]]:
    """Return function and line of each assertion that compares a reading of a clock, or what is computed from it."""
    found = []
    for function in ast.walk(ast.parse(source)):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            readings = _readings(function)
            found += [
                (function.name, assertion.lineno)
                for assertion in ast.walk(function)
                if isinstance(assertion, ast.Assert)
                and any(_is_by_the_clock(node, readings) for node in ast.walk(assertion.test))
            ]
    return sorted(set(found))


def _is_by_the_clock(node: ast.AST, readings: set[str]) -> bool:
    if not isinstance(node, ast.Compare):
        return False
    has_order = any(isinstance(each, ast.Lt | ast.LtE | ast.Gt | ast.GtE) for each in node.ops)
    sides = [node.left, *node.comparators]
    return any(_is_reading(each, readings) and (has_order or _called(each) == "approx") for each in sides)


def _readings(function: ast.AST) -> set[str]:
    """Return the names in a function that hold readings of a clock, or lists of them."""
    names: set[str] = set()
    before = -1
    while len(names) > before:
        before = len(names)
        for node in ast.walk(function):
            if isinstance(node, ast.Assign) and _is_reading(node.value, names):
                names |= {name for target in node.targets for name in _names(target)}
            elif isinstance(node, ast.NamedExpr) and _is_reading(node.value, names):
                names.add(node.target.id)
            elif _called(node) == "append" and any(_is_reading(each, names) for each in node.args):
                names |= set(_names(node.func))
    return names


def _names(node: ast.AST) -> Iterator[str]:
    return (each.id for each in ast.walk(node) if isinstance(each, ast.Name))


def _called(node: ast.AST) -> str:
    """Return the last name of what a node calls; the empty string if it calls nothing."""
    if not isinstance(node, ast.Call):
        return ""
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


def _is_reading(node: ast.expr, names: set[str]) -> bool:
    match node:
        case ast.Name(id=name):
            return name in names
        case ast.BinOp(left=left, right=right):
            parts = [left, right]
        case ast.Subscript(value=value) | ast.Starred(value=value) | ast.NamedExpr(value=value):
            parts = [value]
        case ast.List(elts=parts) | ast.Tuple(elts=parts):
            pass
        case ast.ListComp(elt=value) | ast.GeneratorExp(elt=value):
            parts = [value]
        case ast.Call(args=parts) if _called(node) in THROUGH:
            pass
        case _:
            return _called(node) in CLOCKS and isinstance(node, ast.Call) and not node.args
    return any(_is_reading(each, names) for each in parts)


def test_no_assertion_compares_readings_of_a_clock() -> None:
    found = {
        f"{path.relative_to(ROOT)}::{function}"
        for path in TESTS
        for function, _ in comparisons(path.read_text(encoding="utf-8"))
    }
    assert sorted(found) == sorted(BY_THE_CLOCK)


def test_comparisons_of_clocks_are_found() -> None:
    source = """
def test(qtbot):
    began = time.monotonic()
    assert time.monotonic() - began < 5
    taken = time.time() - began
    assert done and taken * 1000 <= 3
    turns = []
    turns.append(1e3 * (time.thread_time() - began))
    assert np.percentile(turns, 99) < 50
    assert (longest := max(turns)) < 200
    assert answer["time"] == pytest.approx(time.time(), abs=5)
    assert len(turns) > 3, f"after {time.time()}"
    assert moment(time.time()) in texts
    assert row.time == began
"""
    assert [line for _, line in comparisons(source)] == [4, 6, 9, 10, 11]
