"""Write and read checkpoints of PyTorch: weights, optimizer, random states. Loading one cannot run code."""

from __future__ import annotations

import contextlib
import re
from typing import TYPE_CHECKING, Any

import torch

from ....language import tr
from ... import streams
from ...training.checkpoints import other_model
from .data import spread
from .stream import StreamBatches

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from torch import nn

    from ....schema.checkpoint import StateSaver
    from ...context import Context
    from .build import Task

MODEL = "model.pt"
"""A plain state_dict under the model's own names, which any program can load."""
OPTIMIZER = "optimizer.pt"
"""The optimizer's own state_dict, with names for its numbers; of several, those of all, by name."""
SCALER = "scaler.pt"
"""The loss scale of each optimizer, for float16."""


class Saver:
    """Saves a training: the weights as its strategy does, the loss scale, and each rank's stream and random states."""

    def __init__(
        self, task: Task, context: Context, weights: StateSaver | None = None, *, beside: StateSaver | None = None
    ) -> None:
        """`weights`: saves model and optimizer, by default of a model that is whole on every rank.

        `beside`: saves what each rank of a strategy has besides.
        """
        self._task, self._rank, self._beside = task, context.rank, beside
        self._weights = weights or _WholeWeights(task, context)
        self._random, self._stream = f"random-{self._rank}.pt", f"stream-{self._rank}.pt"
        self._scaled = [each for each in task.turns or (task,) if each.scaler is not None]

    def save(self, folder: Path) -> None:
        """Write this rank's files."""
        self._weights.save(folder)
        if self._rank == 0 and self._scaled:  # it is the same on all ranks
            write(folder / SCALER, [each.scaler.state_dict() for each in self._scaled if each.scaler is not None])
        if self._beside is not None:
            self._beside.save(folder)
        if isinstance(self._task.train, StreamBatches) and (state := self._task.train.state_dict()):
            write(folder / self._stream, state)
        write(folder / self._random, random_states())

    def load(self, folder: Path) -> None:
        """Load what `save` wrote. Raises `ValueError` if it is of another model."""
        try:
            self._weights.load(folder)
            for each, state in zip(self._scaled, read(folder / SCALER) if self._scaled else (), strict=True):
                assert each.scaler is not None
                each.scaler.load_state_dict(state)
        except (RuntimeError, ValueError, KeyError) as error:
            raise does_not_fit(folder, error) from error
        if self._beside is not None:
            self._beside.load(folder)
        # Every rank reads the whole stream, so that one without a state of its own can take that of the first.
        streams_here = [folder / name for name in (self._stream, "stream-0.pt") if (folder / name).exists()]
        if isinstance(self._task.train, StreamBatches) and streams_here:
            self._task.train.load_state_dict(read(streams_here[0]))
        if (folder / self._random).exists():
            set_random_states(read(folder / self._random))
        else:  # there were fewer ranks: this one must not draw the numbers of another
            set_random_states(read(folder / "random-0.pt"))
            seed = spread(int(torch.randint(1 << 62, ())), self._rank)
            streams.seed_plainly(seed)
            torch.manual_seed(seed)


class _WholeWeights:
    """Saves a model that is whole on every rank: rank 0 writes it."""

    def __init__(self, task: Task, context: Context) -> None:
        self._task, self._rank = task, context.rank
        self._optimizers = {"".join(each.turn): each.optimizer for each in task.turns or (task,)}

    def save(self, folder: Path) -> None:
        if self._rank == 0:
            named = dict(self._task.model.named_parameters())
            states = {name: state_with_names(each, named) for name, each in self._optimizers.items()}
            write(folder / MODEL, self._task.model.state_dict())
            write(folder / OPTIMIZER, states.get("", states))

    def load(self, folder: Path) -> None:
        self._task.model.load_state_dict(model_state(folder))
        state = read(folder / OPTIMIZER) if (folder / OPTIMIZER).exists() else None
        if state is None or _is_by_name(state):  # of a divided model
            state, named = optimizer_by_name(folder), dict(self._task.model.named_parameters())
            state = {name: by_number(state, each, named) for name, each in self._optimizers.items()}
        elif "" in self._optimizers:
            state = {"": state}
        if list(state) != list(self._optimizers):
            found, own = ", ".join(state), ", ".join(self._optimizers)
            raise ValueError(tr("it has the optimizers {found}, not {own}", found=found, own=own))
        for name, optimizer in self._optimizers.items():
            optimizer.load_state_dict(state[name])


def rank_files(folder: Path, name: str) -> list[Path]:
    """Return the file of a checkpoint by this name, such as `model.pt`; of a divided model those of all ranks."""
    stem, _, end = name.partition(".")
    if (folder / name).exists():
        return [folder / name]
    return [each for each in sorted(folder.glob(f"{stem}-*.{end}")) if re.fullmatch(rf"{stem}-\d+\.{end}", each.name)]


def model_state(folder: Path) -> dict[str, Any]:
    """Return the whole model's weights, from one file or united from the files of all ranks. Raises `ValueError`."""
    parts = rank_files(folder, MODEL)
    if not parts:
        raise ValueError(tr("Checkpoint {checkpoint} has no weights of a whole model.", checkpoint=folder.name))
    if len(parts) == 1:
        return read(parts[0])  # type: ignore[no-any-return]  # a state_dict
    return {name: value for part in parts for name, value in read(part).items()}


def state_with_names(optimizer: torch.optim.Optimizer, named: Mapping[str, nn.Parameter]) -> Any:  # noqa: ANN401 (a state)
    """Return an optimizer's state_dict, to which the names of the parameters in each group are added."""
    state = optimizer.state_dict()
    return {**state, "names": _group_names(optimizer, named)} if _is_of_torch(state) else state


def _is_of_torch(state: Any) -> bool:  # noqa: ANN401 (an optimizer of a class of the recipe's own may give anything)
    return isinstance(state, dict) and {"state", "param_groups"} <= {*state}


def _group_names(optimizer: torch.optim.Optimizer, named: Mapping[str, nn.Parameter]) -> list[list[str]]:
    names = {id(each): name for name, each in named.items()}
    return [[names.get(id(each), "") for each in group["params"]] for group in optimizer.param_groups]


def _is_by_name(state: Any) -> bool:  # noqa: ANN401 (likewise)
    """Return whether a state has names of parameters in the place of numbers, as that of fsdp."""
    return _is_of_torch(state) and any(isinstance(each, str) for row in state["param_groups"] for each in row["params"])


def optimizer_by_name(folder: Path) -> dict[str, Any]:
    """Return the state of all optimizers of all ranks, with names of parameters in the place of numbers.

    Raises `ValueError` if the checkpoint does not say what the numbers stand for.
    """
    whole: dict[str, Any] = {"state": {}, "param_groups": []}
    for path in rank_files(folder, OPTIMIZER):
        state = read(path)
        for part in [state] if _is_of_torch(state) or not isinstance(state, dict) else state.values():
            if not _is_by_name(part) and not (_is_of_torch(part) and "names" in part):
                raise ValueError(tr("the state of its optimizer cannot be divided in another way"))
            names = [name for group in part.get("names", ()) for name in group]
            whole["state"] |= {names[key] if names else key: each for key, each in part["state"].items()}
            groups = part.get("names") or [group["params"] for group in part["param_groups"]]
            whole["param_groups"] += [{**own, "params": g} for own, g in zip(part["param_groups"], groups, strict=True)]
    return whole


def by_number(
    state: Mapping[str, Any], optimizer: torch.optim.Optimizer, named: Mapping[str, nn.Parameter]
) -> dict[str, Any]:
    """Return the part of a state by name that an optimizer has, as its own state_dict."""
    groups = _group_names(optimizer, named)
    known = {name: each for each in state["param_groups"] for name in each["params"]}
    numbers = {name: number for number, name in enumerate(name for group in groups for name in group)}
    rows = [
        {**own, **(known[group[0]] if group else {}), "params": [numbers[name] for name in group]}
        for own, group in zip(optimizer.param_groups, groups, strict=True)
    ]
    own_state = {numbers[key]: each for key, each in state["state"].items() if key in numbers}
    return {"state": own_state, "param_groups": rows}


def write(path: Path, content: object) -> None:
    """Save tensors and plain values. Raises `OSError` if they cannot be written."""
    with path.open("wb") as file:  # a handle of ours: torch's own writer reports a full disk as a RuntimeError
        try:
            torch.save(content, file)
        except RuntimeError as error:  # torch's for an OSError in the middle of the archive
            cause = error.__cause__ or error.__context__
            raise (cause if isinstance(cause, OSError) else OSError(None, str(error))) from error


def read(path: Path) -> Any:  # noqa: ANN401 (what `write` wrote)
    """Load what `write` wrote, onto the CPU. This cannot run code."""
    return torch.load(path, map_location="cpu", weights_only=True)


def random_states() -> dict[str, Any]:
    """Return the random states of Python, numpy and torch, as plain values and tensors."""
    on_gpus = {"cuda": torch.cuda.get_rng_state_all()} if torch.cuda.is_available() else {}
    return {**streams.plain(streams.random_states()), "torch": torch.get_rng_state(), **on_gpus}


def set_random_states(states: dict[str, Any]) -> None:
    streams.set_random_states(states)
    torch.set_rng_state(states["torch"])
    if "cuda" in states and torch.cuda.is_available():
        torch.cuda.set_rng_state_all(states["cuda"][: torch.cuda.device_count()])  # there may have been more


@contextlib.contextmanager
def undisturbed(model: nn.Module) -> Iterator[None]:
    """Let a function of the recipe use the model for evaluation, and then restore its modes and the random states."""
    states, modes = random_states(), [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        for module, training in modes:
            module.training = training
        set_random_states(states)


def does_not_fit(folder: Path, error: Exception) -> ValueError:
    """Return the error for a checkpoint of another model, as torch explains it: in the second line, if there is one."""
    lines = [line.strip() for line in str(error).strip().splitlines()]
    return other_model(folder, (lines[1] if len(lines) > 1 else lines[0]).rstrip("."))
