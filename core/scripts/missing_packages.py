"""What a Python lacks, said with the command that installs it, or where it lies."""

from __future__ import annotations

import os
import shlex
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from pathlib import Path

    from core.pythons.facts import PythonInfo

DISTRIBUTIONS = {
    "Crypto": "pycryptodome", "PIL": "pillow", "attr": "attrs", "bs4": "beautifulsoup4", "cv2": "opencv-python",
    "dateutil": "python-dateutil", "dotenv": "python-dotenv", "faiss": "faiss-cpu", "git": "GitPython",
    "hydra": "hydra-core", "ignite": "pytorch-ignite", "pl_bolts": "lightning-bolts",
    "pytorch_lightning": "pytorch-lightning", "segment_anything": "segment-anything", "skimage": "scikit-image",
    "sklearn": "scikit-learn", "tensorflow_datasets": "tensorflow-datasets", "yaml": "pyyaml",
}  # fmt: skip
"""Packages that are installed under another name than they are imported by."""
REMOVED = {"asynchat", "asyncore", "cgi", "cgitb", "crypt", "distutils", "imp", "imghdr", "pipes", "smtpd", "telnetlib"}
"""Modules that later Pythons than the one they were written for do not have."""

LEVELS = 4
"""So far above a program its package is looked for."""


def nearby(missing: Sequence[str], folder: Path, working: Path) -> dict[str, Path]:
    """Those of the modules that lie in the working folder, or above the program's, each with the folder it lies in."""
    above = [working, folder, *folder.parents[:LEVELS]]
    folders = [each for parent in above for each in (parent, parent / "src")]
    lying = {name: next((each for each in folders if _lies_in(name, each)), None) for name in missing}
    return {name: each for name, each in lying.items() if each is not None}


def beside(name: str, near: Mapping[str, Path]) -> list[str]:
    """A sentence for each module that is there, and will not be found."""
    return [
        f"{name} needs the module {each}, which lies in {folder}, where it will not be looked for. "
        f"Set PYTHONPATH={shlex.quote(str(folder))} for it, or run it as a module, with that working folder."
        for each, folder in near.items()
    ]


def lacking(name: str, missing: Sequence[str], python: PythonInfo, near: Collection[str] = ()) -> list[str]:
    """A sentence on the packages that a program needs, and one on the modules of another Python's own library."""
    own = [each for each in missing if each in sys.stdlib_module_names or each in REMOVED]
    packages = [each for each in missing if each not in own and each not in near]
    found = []
    if packages:
        them = "it" if len(packages) == 1 else "them"
        found.append(
            f"{name} needs the {_list('package', packages)}, which {python.title} at {python.path} does not have. "
            f"Install {them} ({_install(packages, python)}), or choose another Python."
        )
    if own:
        found.append(
            f"{name} needs the {_list('module', own)} of another Python's own library, which {python.title} at "
            f"{python.path} does not have. Choose an earlier or a later Python."
        )
    return found


def _lies_in(name: str, folder: Path) -> bool:
    return os.path.isfile(folder / f"{name}.py") or os.path.isfile(folder / name / "__init__.py")  # noqa: PTH113


def _install(packages: Sequence[str], python: PythonInfo) -> str:
    names = " ".join(DISTRIBUTIONS.get(each, each) for each in packages)
    path = shlex.quote(python.path)
    return f"{path} -m pip install {names}" if python.pip else f"uv pip install --python {path} {names}"


def _list(what: str, names: Sequence[str]) -> str:
    if len(names) == 1:
        return f"{what} {names[0]}"
    return f"{what}s {', '.join(names[:-1])} and {names[-1]}"
