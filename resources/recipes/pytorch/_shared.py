"""Makes the folder `_shared`, which all frameworks' recipes have in common, a package of this folder."""

from pathlib import Path

__path__ = [str(Path(__file__).resolve().parents[1] / "_shared")]
