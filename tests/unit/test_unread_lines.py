"""The lines that are quoted where no measurement was read."""

import pytest

from core.cli.output import last_line, unread_lines

LOG = """Loading 60000 images
[2024-05-04 10:12:31] start
round 1 of 3
total cost : 1.31
round 2 of 3
total cost : 1.24
round 3 of 3
\x1b[32mtotal cost : 1.18\x1b[0m
saved to out_3.bin
done
"""


@pytest.mark.parametrize("line", [
    'Traceback (most recent call last):\n  File "train.py", line 12, in <module>\n    x = 1 / 0.5\nKeyError: at 3.5',
    "ValueError: shape 3.5 is invalid", "train.py:3: UserWarning: lr 0.5 is high",
    "study no-name-1f62bb84-00da-4124-9850-5d0ff6597b77",
    "object at 0x7f3a2b",
])
def test_lines_of_python_and_identifiers_are_not_quoted(line: str) -> None:
    assert [each.text for each in unread_lines(f"deficit 3.5\n{line}\n")] == ["deficit 3.5"]


def test_lines_whose_shape_recurs_with_decimals_come_first() -> None:
    found = unread_lines(LOG)
    assert [(each.text, each.number, each.times) for each in found] == [
        ("total cost : 1.18", "1.18", 3), ("round 3 of 3", "3", 3), ("Loading 60000 images", "60000", 1),
    ]
    assert last_line(LOG) == "done"
    assert unread_lines("the same 1.5\n" * 9 + "cost at 2\ncost at 3\n")[0].text == "cost at 3", "other numbers"
    assert unread_lines("hello\nv1.2.3\n") == unread_lines("") == [], "without numbers"
    assert last_line(" \n") == ""
