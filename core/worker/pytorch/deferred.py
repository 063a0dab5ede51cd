"""Make a model on the `meta` device, and give each rank the values of its own shards later.

A model on the meta device has shapes and no memory. What its constructor does to tensors is recorded, and done again on
real tensors, one after another: each is dropped as soon as its shard was taken. All random numbers are drawn in the
same order as without the meta device, so the weights are the same to the last bit.
"""

from __future__ import annotations

import inspect
import math
import warnings
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map

from ...language import tr

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    Keep = Callable[[str, Tensor], object]
    """Takes the name of a parameter or buffer and its whole value."""

OVERWRITE = frozenset({"uniform_", "normal_", "fill_", "zero_", "copy_", "bernoulli_", "exponential_", "random_"})
"""Operations that write all elements of their first argument and do not read it."""
EMPTY = frozenset({"empty", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided"})
"""Operations that leave their result without values."""
IS_META = Tensor.is_meta.__get__  # type: ignore[attr-defined]  # a descriptor
META = torch.device("meta")
CPU = torch.device("cpu")


class _View(NamedTuple):
    """A tensor on the meta device: how it lies in its storage."""

    storage: int
    dtype: torch.dtype
    size: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int
    elements: int
    """The length of the storage."""


class _Real(NamedTuple):
    """A tensor with memory that an operation read, and how often it had been changed by then."""

    tensor: Tensor
    version: int


class _Operation(NamedTuple):
    function: Any
    arguments: Any
    keywords: Mapping[str, Any]
    results: Any

    @property
    def name(self) -> str:
        """The name of PyTorch's operator or function."""
        packet = getattr(self.function, "overloadpacket", self.function)
        return str(packet.__name__)

    @property
    def is_initialisation(self) -> bool:
        """Whether it is a function of `torch.nn.init`: these write a whole tensor."""
        return getattr(self.function, "__module__", "") == nn.init.__name__

    def views(self) -> Iterator[_View]:
        """Yield all tensors on the meta device that take part."""
        leaves, _ = tree_flatten((self.arguments, self.keywords, self.results), is_leaf=_is_leaf)
        return (each for each in leaves if isinstance(each, _View))

    @property
    def overwritten(self) -> int | None:
        """The storage that this operation writes as a whole, without reading it."""
        first = self.arguments[0] if self.arguments else None
        if not isinstance(first, _View) or not (self.name in OVERWRITE or self.is_initialisation):
            return None
        others, _ = tree_flatten((self.arguments[1:], self.keywords), is_leaf=_is_leaf)
        reads = any(isinstance(each, _View) and each.storage == first.storage for each in others)
        whole = first.offset == 0 and _is_dense(first) and first.elements == math.prod(first.size)
        return first.storage if whole and not reads else None


class DeferredModel(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch's
    """Enter it while a model is made; `fill` then computes the values of its parameters and buffers."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch's
        self._operations: list[_Operation] = []
        self._storages: dict[int, Any] = {}
        """By `id`. Kept, so that no storage gets the id of an earlier one."""
        self._contexts = ExitStack()

    def __enter__(self) -> Any:  # noqa: ANN401 (torch's protocol)
        self._contexts.enter_context(warnings.catch_warnings())
        # `load_state_dict` warns that it does nothing on this device. It is recorded, and done later.
        warnings.filterwarnings("ignore", message=".*copying from a non-meta parameter", category=UserWarning)
        self._contexts.enter_context(META)
        self._contexts.enter_context(_Initialisations(self))  # after META, so that it sees the caller itself
        return super().__enter__()  # type: ignore[no-untyped-call]  # torch's

    def __exit__(self, *error: object) -> None:
        super().__exit__(*error)  # type: ignore[no-untyped-call]  # torch's
        self._contexts.close()
        if isinstance(error[1], (RuntimeError, NotImplementedError)) and "meta" in str(error[1]):
            raise ValueError(
                tr(
                    "model() reads the value of a tensor while it makes the model, and on the meta device tensors have "
                    "none: {error}. Compute it with Python's numbers, or switch the meta device off.",
                    error=str(error[1]).splitlines()[0].rstrip("."),
                )
            ) from error[1]

    def __torch_dispatch__(
        self,
        func: Any,  # noqa: ANN401 (torch's protocol)
        types: Any,  # noqa: ANN401
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:  # noqa: ANN401
        keywords = dict(kwargs or {})
        given = tree_map(self._seen, args), tree_map(self._seen, keywords)  # before the operation changes them
        results = func(*args, **keywords)
        tensors = [each for each in tree_flatten((args, keywords, results))[0] if isinstance(each, Tensor)]
        if any(each.is_meta for each in tensors):
            self._operations.append(_Operation(func, *given, tree_map(self._seen, results)))
        elif torch.Tag.nondeterministic_seeded in func.tags:
            raise ValueError(
                tr(
                    "model() draws random numbers on the CPU by name ({function}), which the meta device cannot keep "
                    "in order. Leave the device out, or switch the meta device off.",
                    function=func.overloadpacket.__name__,
                )
            )
        return results

    def record_initialisation(self, function: Callable[..., Any], arguments: Mapping[str, Any]) -> None:
        """Record a function of `torch.nn.init` that does nothing on the meta device. Its first argument is a tensor."""
        tensor, *others = arguments.values()
        self._operations.append(_Operation(function, (self._view(tensor.detach()), *others), {}, None))

    def _seen(self, value: Any) -> Any:  # noqa: ANN401 (any argument)
        if not isinstance(value, Tensor):
            return value
        return self._view(value) if value.is_meta else _Real(value, value._version)  # noqa: SLF001 (no public name)

    def _view(self, tensor: Tensor) -> _View:
        storage = tensor.untyped_storage()  # the same object for all views of it, as long as one of us keeps it
        self._storages[id(storage)] = storage
        elements = int(storage.nbytes()) // tensor.element_size()
        size, stride = tuple(tensor.shape), tensor.stride()
        return _View(id(storage), tensor.dtype, size, stride, int(tensor.storage_offset()), elements)

    def states(self, model: nn.Module) -> dict[int, list[tuple[str, _View]]]:
        """Return the names of parameters and buffers on the meta device by storage. Call it before they are sharded."""
        found: dict[int, list[tuple[str, _View]]] = {}
        for name, tensor in (*model.named_parameters(), *model.named_buffers()):
            if tensor.is_meta:
                view = self._view(tensor.detach())
                found.setdefault(view.storage, []).append((name, view))
        written = {
            view.storage for each in self._operations if each.name not in EMPTY for view in each.views()
        }
        if empty := [name for storage, named in found.items() if storage not in written for name, _ in named]:
            raise ValueError(
                tr(
                    "model() gives {names} no values on the meta device. Fill them in with PyTorch's functions, or "
                    "switch the meta device off.",
                    names=", ".join(empty[:3]),
                )
            )
        return found

    def fill(self, states: Mapping[int, list[tuple[str, _View]]], keep: Keep) -> None:
        """Compute the values and hand each to `keep`, then forget it. At most a few are in memory at a time."""
        last = self._last_uses()
        real: dict[int, Tensor] = {}
        with torch.no_grad():
            for number, operation in enumerate(self._operations):
                if operation.overwritten is not None:
                    real.pop(operation.overwritten, None)
                self._repeat(operation, real)
                for storage in {view.storage for view in operation.views()}:
                    ends = last[storage]
                    if number not in ends:
                        continue
                    if number == ends[-1]:
                        for name, view in states.get(storage, ()):
                            keep(name, _tensor(view, real))
                    real.pop(storage, None)
        self._operations.clear()
        self._storages.clear()

    def _last_uses(self) -> dict[int, list[int]]:
        """Return for each storage the numbers of the operations after which its content is not read any more.

        The last of them leaves the final content; those before are followed by an operation that overwrites it.
        """
        before: dict[int, int] = {}
        found: dict[int, list[int]] = {}
        for number, operation in enumerate(self._operations):
            overwritten = operation.overwritten
            if overwritten in before and overwritten is not None:
                found.setdefault(overwritten, []).append(before[overwritten])
            for view in operation.views():
                before[view.storage] = number
        for storage, number in before.items():
            found.setdefault(storage, []).append(number)
        return found

    def _repeat(self, operation: _Operation, real: dict[int, Tensor]) -> None:
        """Do the operation on real tensors, and note the storages that it has made."""

        def value(each: Any) -> Any:  # noqa: ANN401 (any argument)
            if isinstance(each, _Real):
                if each.tensor._version != each.version:  # noqa: SLF001 (no public name)
                    raise ValueError(
                        tr("model() changes a tensor that it has copied. Switch the meta device off for this model.")
                    )
                return each.tensor
            if isinstance(each, _View):
                return _tensor(each, real)
            return CPU if isinstance(each, torch.device) and each == META else each

        arguments, keywords = tree_map(value, (operation.arguments, operation.keywords), is_leaf=_is_leaf)
        results = operation.function(*arguments, **keywords)
        if operation.is_initialisation:
            return  # it returns the tensor that it was given
        recorded, _ = tree_flatten(operation.results, is_leaf=_is_leaf)
        for view, result in zip(recorded, tree_flatten(results)[0], strict=True):
            if isinstance(view, _View) and view.storage not in real:
                flat = result.new_empty(0)
                real[view.storage] = flat.set_(result.untyped_storage())


class _Initialisations(TorchFunctionMode):
    """Records functions of `torch.nn.init` that look whether a tensor is on the meta device, and then do nothing."""

    def __init__(self, model: DeferredModel) -> None:
        super().__init__()
        self._model = model

    def __torch_function__(
        self,
        func: Any,  # noqa: ANN401 (torch's protocol)
        types: Any,  # noqa: ANN401
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:  # noqa: ANN401
        result = func(*args, **(kwargs or {}))
        if func == IS_META and result:
            frame = inspect.currentframe()
            caller = frame and frame.f_back
            if caller and caller.f_globals.get("__name__") == nn.init.__name__:
                code = caller.f_code
                names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
                self._model.record_initialisation(
                    getattr(nn.init, code.co_name), {name: caller.f_locals[name] for name in names}
                )
        return result


def _tensor(view: _View, real: dict[int, Tensor]) -> Tensor:
    """Return the real tensor of a view; make its storage if nothing is in it yet."""
    if view.storage not in real:
        real[view.storage] = torch.empty(view.elements, dtype=view.dtype, device=CPU)
    base = real[view.storage]
    return torch.empty(0, dtype=view.dtype, device=CPU).set_(
        base.untyped_storage(), view.offset, view.size, view.stride
    )


def _is_leaf(each: object) -> bool:
    return isinstance(each, (_View, _Real))  # they are tuples, which would be taken apart


def _is_dense(view: _View) -> bool:
    """Return whether the view takes each element of a range once, as a contiguous tensor or a transposed one does."""
    expected = 1
    for stride, size in sorted(zip(view.stride, view.size, strict=True)):
        if size != 1:
            if stride != expected:
                return False
            expected *= size
    return True
