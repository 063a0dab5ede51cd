"""The registry of frameworks, one row each."""

from __future__ import annotations

from dataclasses import dataclass

from core.language import tr


@dataclass(frozen=True, slots=True, kw_only=True)
class Framework:
    """A framework that trains."""

    id: str
    title: str
    module: str
    """The module whose presence shows that the framework is installed."""
    extra: str
    """The extra of the distribution `trainyard` that installs the framework; also the name of its package."""
    recipes: str
    """The folder of its built-in recipes. TensorFlow and Keras use the same files."""
    imports: tuple[str, ...]
    """The packages that a recipe for this framework may import; one of them is enough to recognise it."""
    compiler: str
    """The compiler that the option `--compile` uses."""


FRAMEWORKS = (
    Framework(id="pytorch", title="PyTorch", module="torch", extra="torch", recipes="pytorch", imports=("torch",),
              compiler="torch.compile"),
    Framework(id="tensorflow", title="TensorFlow", module="tensorflow", extra="tensorflow", recipes="keras",
              imports=("tensorflow", "keras"), compiler="XLA"),
    Framework(id="keras", title="Keras", module="keras", extra="tensorflow", recipes="keras",
              imports=("tensorflow", "keras"), compiler="XLA"),
)


def framework_title(name: str) -> str:
    """Return the title of a framework; the empty string for a script's, and the id of one of another version."""
    return next((row.title for row in FRAMEWORKS if row.id == name), "" if name == "script" else name)


def framework(name: str) -> Framework:
    """Return the row with this id. Raises `ValueError` with a sentence."""
    for row in FRAMEWORKS:
        if row.id == name:
            return row
    known = ", ".join(row.id for row in FRAMEWORKS)
    raise ValueError(tr("There is no framework {name!r} here. Choose one of: {known}.", name=name, known=known))
