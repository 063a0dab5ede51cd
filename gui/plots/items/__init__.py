"""Parts of plots: canvas, axes, lines, bands, marks, the read-out under the mouse."""
