"""The tab Log: the end of a log file, read as a terminal would, shown and searched."""
