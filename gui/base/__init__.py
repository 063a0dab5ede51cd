"""How everything looks, and the machinery of the window. It knows no widget and no feature.

- `theme`, `icons`, `colours`, `text_size`, `painting`: themes, icons, contrast, the size of text, shared painting
- `formatting`, `window_language`: numbers, sizes and times in words; the language of the window
- `jobs`, `timers`: work on threads; timers
- `settings_file`, `preferences`: the file in which the window keeps its settings; what the user prefers
"""
