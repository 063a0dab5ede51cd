"""The tabs Memory and Processes, and the strip about leftover processes."""
