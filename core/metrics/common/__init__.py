"""What all sources of measurements share: readings, metric names, merging, steps."""
