"""Measurements in printed text: lines, learned shapes, progress bars, a user's expression."""
