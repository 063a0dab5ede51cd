"""How everything looks.

- `theme`: dark and light theme, each also with strong contrast: colours, palette and style sheet
- `contrast`: the contrast of two colours, and colours that have enough of it
- `text_size`: the size of all text, from the desktop's font and a zoom
- `window_language`: the language of the sentences, and whether a font can show it
- `device_colours`, `icons`: the colour of each device; the icons of buttons
- `formatting`: numbers, sizes and times
"""
