"""How everything looks, and the machinery of the window. It knows no widget and no feature.

- `theme`, `icons`, `colours`, `text_size`, `painting`: themes, icons, contrast, the size of text, shared painting
- `formatting`: numbers, sizes and times in words
- `jobs`, `timers`: work on threads; timers
- `settings_file`, `preferences`: the settings file of the window; what the user prefers, and its language
"""
