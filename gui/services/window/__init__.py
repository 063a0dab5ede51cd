"""What a window has as a program.

- `poll_timer`: the one timer
- `settings_file`, `preferences`: the settings that the window saves
- `garbage_collector`: collects cyclic garbage in the window's thread only
"""
