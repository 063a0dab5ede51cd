"""The log of the shown run.

- `page`, `view`: the tab, and teaching what a number in it is; its text, and the search
- `terminal`, `files`, `highlights`: colours of the text; the file; marked numbers
"""
