"""The form of a run to be started."""
