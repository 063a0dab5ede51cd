"""Reports: runs as one file of HTML that needs no network.

- `markup`: elements of HTML, in which all texts are escaped
- `chart`: curves as a drawing in SVG
- `pictures`: charts as files of their own, SVG or PNG
- `page`: the head of the file, its colours in light and dark, and its parts
- `sections`: the parts of a report: results, curves, settings, environment, memory, events
- `run_report`: read runs and put their report together
"""
