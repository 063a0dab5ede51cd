"""The window.

- `app`: open the window
- `window`: make its parts and connect them
- `features`: what it can do, one folder each
- `plots`, `machine`: the plots of a run; the machine whose runs are shown, and its devices
- `runs`, `widgets`: what all features know of runs; general widgets
- `base`: how everything looks, and the machinery of the window
"""
