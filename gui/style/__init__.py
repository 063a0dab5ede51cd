"""Colours, icons, theme and number formats."""
