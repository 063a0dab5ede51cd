"""Known ways of printing measurements: one module each, and one row in `registry`."""
