"""The units that numbers are shown in."""

from __future__ import annotations

BYTES_PER_GB = 2**30
"""As the makers of cards count: one sold with 24 GB has 24 times this."""
