"""Cutting a model into stages, and the global batches that flow through them."""
