"""What the panels are given to show: plain data, made from runs and devices without any widget."""
