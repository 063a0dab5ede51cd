"""Measurements in files: TensorBoard events, CSV tables, JSON lines."""
