"""Work in the background of the window: `QObject`s without widgets."""
