"""Parts of plots.

- `canvas`, `axes`: the drawing area and its axes
- `drawing`: the base of items that draw themselves
- `line`, `multi_line`, `band`: one line, many lines as one item, a band
- `heat_strips`, `margin_labels`: rows of readings; the labels beside rows and ends of lines
- `hover`, `end_mark`: the read-out under the mouse; the mark at the end of training
- `value_marks`, `interruption_marks`: marks at single values; marks where a time axis leaves out an interruption
"""
