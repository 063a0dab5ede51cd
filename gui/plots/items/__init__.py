"""The parts that plots are made of.

- `canvas`, `margin_labels`: the drawing area with its axes; labels beside it
- `lines`, `strips`, `marks`: what is drawn
- `hover`: the values under the mouse
"""
