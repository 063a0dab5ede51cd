"""Plots: `registry` lists them, `plot_area` stacks them, `items` holds what they draw with."""
