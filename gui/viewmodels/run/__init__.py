"""View data about runs: header, progress, pause button, list rows, messages, memory verdicts."""
