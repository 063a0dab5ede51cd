"""The tab Log.

- `log_page`: the tab: rank, text and search
- `log_view`: the text, following the end of the file
- `highlights`: mark matches and numbers; the menu of a number
- `teach_dialog`: say what a number is, and see the curve before it is kept
- `search_bar`: the field of the search, with the number of matches
- `file_tail`, `file_search`: read a part of a growing file, mostly its end; search all of it
- `terminal`, `ansi_colours`: interpret control characters and colours
"""
