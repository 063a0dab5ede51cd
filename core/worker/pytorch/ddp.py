"""Data parallel: a process per device, gradients averaged by DistributedDataParallel, compressed if the run says so."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.nn.parallel import DistributedDataParallel

from ...language import tr
from .distributed import Ranks, broadcast_buffers, join, leave, merge_over_ranks
from .loop import Validation, train_task
from .task.build import build
from .task.data import spread
from .task.saver import Saver, read, write
from .task.step_times import StepTimes

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from torch import Tensor
    from torch.distributed import GradBucket  # type: ignore[attr-defined]  # documented, but not declared as exported

    from ..context import Context
    from ..recipe import LoadedRecipe
    from .task.build import Task
    from .task.data import MicroBatch
    from .task.steps import Pass

LEAST_SAVING = 2
"""A gradient is compressed if that makes it smaller by more than this factor, as with PyTorch's own hook."""
TINY = 1e-8
"""Added to norms that PowerSGD divides by: a layer without a gradient would become NaN."""
NARROW = ("float16", "powersgd")
"""Compressions that cannot carry gradients of any scale, or that keep errors in the scale of an earlier step."""


def train(recipe: LoadedRecipe, context: Context) -> None:
    """Train to the last epoch, or until rank 0 sees a request to stop or to pause."""
    task = build(recipe, context)
    join(context)
    try:
        _train(task, context)
    except RuntimeError as error:
        numbers = re.search(r"did not receive grad for rank \d+: ([\d ]+)", str(error))
        if numbers is None:
            raise
        trained = [name for name, parameter in task.model.named_parameters() if parameter.requires_grad]
        raise RuntimeError(
            tr(
                "These parameters take no part in the loss: {unused}. Data parallel training needs a gradient for "
                "each. Use them in forward(), remove them from the model, or set their requires_grad to False.",
                unused=", ".join(trained[int(number)] for number in numbers[1].split()),
            )
        ) from error
    leave()


def _train(task: Task, context: Context) -> None:
    on_gpu = context.assignment.kind != "cpu"
    model = DistributedDataParallel(
        task.module,
        device_ids=[context.assignment.local_rank] if on_gpu else None,
        bucket_cap_mb=context.training.bucket_mb,
        find_unused_parameters=bool(task.turns),  # the pass of one optimizer need not use those of another
    )
    powersgd = compress(model, task, context)
    train_task(
        task,
        context,
        lambda part, batches: _accumulate(part, model, batches, context),
        ranks=Ranks(context),
        saver=Saver(task, context, beside=powersgd),
        # Each rank validates its slice of the validation set, all with the same model.
        validation=lambda controller, _: Validation(task, task.module, controller, before=broadcast_buffers),
        begun=None if powersgd is None else powersgd.begin,
        times=StepTimes(context, task, reduces=True),
    )


def _accumulate(task: Task, model: DistributedDataParallel, micro_batches: list[MicroBatch], context: Context) -> Pass:
    """Make all passes of one step and reduce gradients with the last. Return this rank's mean values and their share.

    DDP averages gradients over ranks, so each pass is weighted by its share times the world size. The average is then
    the gradient of the mean over the global batch, even if the batch does not divide evenly.
    """
    *rest, last = micro_batches
    found = []
    for batch in rest:
        with model.no_sync():
            found.append(task.backward(task, model, batch, batch.share * context.world_size))
    found.append(task.backward(task, model, last, last.share * context.world_size))
    require_no_weight(context, found)
    return merge_over_ranks(task, found)


def compress(model: DistributedDataParallel, task: Task, context: Context) -> PowerSGD | None:
    """Give DDP the run's compression. Return PowerSGD if it is that, since it has a state.

    All hooks average over ranks like DDP itself, so losses that are weighted by their share of the global batch stay
    right.
    """
    kind = context.training.gradient_compression
    if kind == "float16":
        model.register_comm_hook(None, default_hooks.fp16_compress_hook)
    elif kind == "bfloat16":
        model.register_comm_hook(None, default_hooks.bf16_compress_hook)
    elif kind == "powersgd":
        powersgd = PowerSGD(task, context)
        model.register_comm_hook(None, lambda _, bucket: powersgd.reduce(bucket))  # DDP would check annotations
        return powersgd
    return None


class PowerSGD:
    """PowerSGD of rank 1 with warm start and error feedback (Vogels, Karimireddy and Jaggi 2019).

    A gradient is a matrix M. All ranks agree on a vector p from a vector q of the step before, then on the next q, and
    take their outer product in place of M. Each rank adds what that lacks, its error, to its gradient of the next step.

    PyTorch's own hook keeps errors and vectors by the number of a bucket, and a resumed run has other buckets until its
    second pass. Over Gloo it waits for ever where gradients take several buckets: its threads wait for one another.
    """

    def __init__(self, task: Task, context: Context) -> None:
        """Raises `ValueError` for a recipe that PowerSGD cannot train."""
        if task.turns:
            raise ValueError(
                tr(
                    "PowerSGD owes each gradient the error of the step before, and with optimizers() the gradients of "
                    "the other optimizers are discarded in each turn. Choose gradient compression float16 or none."
                )
            )
        self._context = context
        self._names: dict[Tensor, str] = {parameter: name for name, parameter in task.model.named_parameters()}
        self._numbers = {name: number for number, name in enumerate(self._names.values())}
        steps = task.train.steps * context.training.epochs
        self._begins = max(2, context.training.warmup_steps, steps // 10)
        """After how many steps it begins, as PyTorch's documentation of `PowerSGDState` advises; two are the least."""
        self._file = f"powersgd-{context.rank}.pt"
        self._done = 0
        self._errors: dict[str, Tensor] = {}
        """What this rank owes to the gradient of each compressed parameter, by its name: shape (rows, columns)."""
        self._vectors: dict[str, Tensor] = {}
        """Each q: shape (columns)."""

    def begin(self, done: int) -> None:
        """Continue after so many steps. Call it when a checkpoint was loaded, before the first pass."""
        self._done = done

    def reduce(self, bucket: GradBucket) -> Any:  # noqa: ANN401 (torch's future of a tensor)
        """Average the gradients of a bucket over ranks: the hook that DDP calls, bucket after bucket."""
        compresses = self._done >= self._begins
        self._done += bucket.is_last()
        if not compresses:
            return default_hooks.allreduce_hook(None, bucket)  # type: ignore[arg-type]  # None: all ranks
        buffer = bucket.buffer()
        self._approximate(list(bucket.parameters()), bucket.gradients())
        reduced: torch.futures.Future[Tensor] = torch.futures.Future(
            devices=[buffer.device] if buffer.is_cuda else None
        )
        reduced.set_result(buffer)
        return reduced

    def save(self, folder: Path) -> None:
        """Write what this rank remembers."""
        write(folder / self._file, {"errors": self._errors, "vectors": self._vectors})

    def load(self, folder: Path) -> None:
        memory = read(folder / self._file)
        self._errors, self._vectors = memory["errors"], memory["vectors"]

    @torch.no_grad()
    def _approximate(self, parameters: Sequence[Tensor], gradients: Sequence[Tensor]) -> None:
        """Set small gradients to their mean over ranks, and large ones to an approximation of it."""
        pairs = list(zip(parameters, gradients, strict=True))
        large = {self._names[parameter]: gradient for parameter, gradient in pairs if _is_compressed(gradient)}
        small = [gradient for gradient in gradients if not _is_compressed(gradient)]
        owed = {name: self._with_error(name, gradient.flatten(1)) for name, gradient in large.items()}
        left = [matrix @ _unit(self._vector(name, matrix)) for name, matrix in owed.items()]
        _average([*small, *left])
        left = [_unit(each) for each in left]
        right = [matrix.T @ vector for matrix, vector in zip(owed.values(), left, strict=True)]
        _average(right)
        for (name, matrix), p, q in zip(owed.items(), left, right, strict=True):
            agreed = torch.outer(p, q)
            large[name].copy_(agreed.view_as(large[name]))
            self._errors[name], self._vectors[name] = matrix - agreed, q

    def _with_error(self, name: str, matrix: Tensor) -> Tensor:
        error = self._errors.get(name)
        return matrix.clone() if error is None else matrix + error.to(matrix)

    def _vector(self, name: str, matrix: Tensor) -> Tensor:
        """Return the q of the step before; at first random numbers, equal on all ranks."""
        found = self._vectors.get(name)
        if found is None:
            seed = spread(self._context.training.seed, self._numbers[name])
            found = torch.randn(matrix.shape[1], generator=torch.Generator().manual_seed(seed))
        return found.to(matrix)


def _is_compressed(gradient: Tensor) -> bool:
    """Return whether the vectors of a gradient are smaller than the gradient by more than `LEAST_SAVING`."""
    if gradient.ndim < 2 or not gradient.numel():
        return False
    rows = len(gradient)
    return (rows + gradient.numel() // rows) * LEAST_SAVING < gradient.numel()


def _unit(vector: Tensor) -> Tensor:
    norm: Tensor = torch.linalg.vector_norm(vector)
    return vector / (norm + TINY)


def _average(tensors: Sequence[Tensor]) -> None:
    """Set tensors of one type to their means over ranks, in one reduction."""
    if not tensors:
        return
    flat = torch.cat([each.reshape(-1) for each in tensors])
    dist.all_reduce(flat)
    flat /= dist.get_world_size()
    for each, part in zip(tensors, flat.split([each.numel() for each in tensors]), strict=True):  # type: ignore[no-untyped-call]
        each.copy_(part.view_as(each))


def require_no_weight(context: Context, found: Sequence[Pass]) -> None:
    """Raise `ValueError` if a recipe's step returned a weight: its gradients are multiplied by that until the end."""
    kind = context.training.gradient_compression
    if kind in NARROW and isinstance(found[0][1], torch.Tensor):
        raise ValueError(
            tr(
                "training_step() returned a weight, by which gradients are multiplied until they are reduced. "
                "Gradient compression {kind} cannot carry them. Choose bfloat16 (GPUs) or none.",
                kind=kind,
            )
        )
