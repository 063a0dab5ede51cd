"""What Keras' errors mean to people: below it is TensorFlow."""

from __future__ import annotations

from ..tensorflow._errors import explain

__all__ = ["explain"]
