"""How everything looks.

- `theme`: dark and light theme: colours, palette and style sheet
- `device_colours`, `icons`: the colour of each device; the icons of buttons
- `formatting`: numbers, sizes and times
"""
