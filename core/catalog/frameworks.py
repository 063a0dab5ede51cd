"""The frameworks that can train: one row each."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Framework:
    """A library that trains."""

    id: str
    title: str
    module: str
    extra: str
    """The extra of our distribution that installs it, called like its package."""
    recipes: str
    """The folder of built-in recipes; TensorFlow's own loop and Keras' `fit` take the same files."""
    imports: tuple[str, ...]
    """What a recipe of this framework imports."""
    compiler: str
    """What compiling a model means here."""


FRAMEWORKS = (
    Framework(id="pytorch", title="PyTorch", module="torch", extra="torch", recipes="pytorch", imports=("torch",),
              compiler="torch.compile"),
    Framework(id="tensorflow", title="TensorFlow", module="tensorflow", extra="tensorflow", recipes="keras",
              imports=("tensorflow", "keras"), compiler="XLA"),
    Framework(id="keras", title="Keras", module="keras", extra="tensorflow", recipes="keras",
              imports=("tensorflow", "keras"), compiler="XLA"),
)  # fmt: skip


def framework(name: str) -> Framework:
    """The framework's row. Raises `ValueError` with a sentence."""
    for row in FRAMEWORKS:
        if row.id == name:
            return row
    known = ", ".join(row.id for row in FRAMEWORKS)
    raise ValueError(f"There is no framework {name!r} here. Choose one of: {known}.")
