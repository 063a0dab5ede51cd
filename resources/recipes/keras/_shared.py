"""Make the folder `_shared`, which the recipes of all frameworks use, a package of this folder."""

from pathlib import Path

__path__ = [str(Path(__file__).resolve().parents[1] / "_shared")]
