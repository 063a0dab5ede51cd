"""The lines that are quoted where no measurement was read."""

from core.diagnosis.program_output import last_line, unread_lines

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


def test_lines_whose_shape_recurs_with_decimals_come_first() -> None:
    found = unread_lines(LOG)
    assert [(each.text, each.number, each.times) for each in found] == [
        ("total cost : 1.18", "1.18", 3), ("round 3 of 3", "3", 3), ("Loading 60000 images", "60000", 1),
    ]
    assert last_line(LOG) == "done"
    assert unread_lines("hello\nv1.2.3\n") == unread_lines("") == [], "without numbers"
    assert last_line(" \n") == ""
