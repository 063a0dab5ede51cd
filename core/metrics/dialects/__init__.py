"""Known ways of printing metrics: `at_step`, `bars`, `dictionary` and `pairs`, with one row each in `registry`.

`syntax` holds what they share.
"""
