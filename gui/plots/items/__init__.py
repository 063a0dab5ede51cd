"""Parts of plots: lines, bands, axes, marks."""
