"""The tab Log.

- `log_page`: the tab: rank, text and search
- `log_view`: the text, following the end of the file
- `file_tail`: read the end of a growing file
- `terminal`, `ansi_colours`: interpret control characters and colours
"""
