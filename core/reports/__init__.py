"""Reports: runs as one file of HTML that needs no network.

- `page`: the head of the file, its colours in light and dark, its elements, in which all texts are escaped
- `chart`: curves as a drawing in SVG
- `pictures`: charts as files of their own, SVG or PNG
- `run_report`: read runs and put their report together, with its parts
"""
