"""Data parallel: one process per device, gradients averaged by DistributedDataParallel."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from torch.nn.parallel import DistributedDataParallel

from ...language import tr
from .loop.common import backward, step_backward, train_task
from .loop.compression import compress, require_no_weight
from .loop.distributed import Ranks, broadcast_buffers, join, leave, merge_over_ranks
from .loop.saver import WholeSaver
from .loop.validation import Validation
from .task.build import build

if TYPE_CHECKING:
    from torch import Tensor, nn

    from ..context import Context
    from ..recipe import LoadedRecipe
    from .loop.common import Task
    from .task.data import MicroBatch


def train(recipe: LoadedRecipe, context: Context) -> None:
    """Train to the last epoch, or until rank 0 sees a request to stop or to pause."""
    task = build(recipe, context)
    join(context)
    try:
        _train(task, context)
    except RuntimeError as error:
        explanation = _explain_unused_parameters(error, task.model)
        if explanation is None:
            raise
        raise explanation from error
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
        saver=WholeSaver(task, context, beside=powersgd),
        # Each rank validates its slice of the validation set, all with the same model.
        validation=lambda controller, _: Validation(task, task.module, controller, before=broadcast_buffers),
        begun=None if powersgd is None else powersgd.begin,
    )


def _accumulate(
    task: Task, model: DistributedDataParallel, micro_batches: list[MicroBatch], context: Context
) -> tuple[Tensor, float | Tensor]:
    """Make all passes of one step and reduce gradients with the last. Return this rank's mean loss and its share.

    DDP averages gradients over ranks, so each pass is weighted by its share times the world size. The average is then
    the gradient of the mean over the global batch, even if the batch does not divide evenly.
    """
    *rest, last = micro_batches
    world_size = context.world_size
    if task.training_step is not None:
        results = []
        for batch in rest:
            with model.no_sync():
                results.append(step_backward(task, model, batch, batch.share * world_size))
        results.append(step_backward(task, model, last, last.share * world_size))
        require_no_weight(context, results)
        return merge_over_ranks(task, results, micro_batches)
    weighted = []
    for batch in rest:
        with model.no_sync():
            weighted.append(backward(task, model, batch, batch.share * world_size) * batch.share)
    loss = backward(task, model, last, last.share * world_size)
    if not rest:
        return loss, last.share
    share = sum(batch.share for batch in micro_batches)
    return sum(weighted, start=loss * last.share) / share, share


def _explain_unused_parameters(error: RuntimeError, model: nn.Module) -> RuntimeError | None:
    """Name the parameters that DDP reports by number as unused. Return None for any other error."""
    numbers = re.search(r"did not receive grad for rank \d+: ([\d ]+)", str(error))
    if numbers is None:
        return None
    trained = [name for name, parameter in model.named_parameters() if parameter.requires_grad]
    unused = ", ".join(trained[int(number)] for number in numbers[1].split())
    return RuntimeError(
        tr(
            "These parameters take no part in the loss: {unused}. Data parallel training needs a gradient for each. "
            "Use them in forward(), remove them from the model, or set their requires_grad to False.",
            unused=unused,
        )
    )
