"""What ships as plain files: data, recipes, icons, themes. Found through `ROOT`, never by a working directory."""

from pathlib import Path

ROOT = Path(__file__).resolve().parent
