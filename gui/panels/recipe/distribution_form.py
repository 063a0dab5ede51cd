"""The settings that only some strategies have."""

from __future__ import annotations

from dataclasses import asdict

from core.config.strategy_settings import STRATEGY_SETTINGS, without_meaning
from core.language import tr, tr_noop
from core.schema.settings import CROSS_DEVICE_OPS, GRADIENT_COMPRESSIONS, Training
from gui.widgets.forms import editors
from gui.widgets.forms.field_group import FieldGroup

REDUCTION_TITLES = {
    "auto": tr_noop("auto"), "nccl": "NCCL", "hierarchical_copy": tr_noop("hierarchical copy"),
    "one_device": tr_noop("on one device"),
}  # fmt: skip
COMPRESSION_TITLES = {"none": tr_noop("off"), "powersgd": "PowerSGD"}


class DistributionForm(FieldGroup):
    """How a model and its gradients are spread over devices: fields of `Training`. Hides those of other strategies."""

    def __init__(self) -> None:
        super().__init__(tr("Devices and memory"))
        reduction, output, buckets, compression, meta, made, twice = (tr(row.title) for row in STRATEGY_SETTINGS)
        self._add_gradient_fields(reduction, output, buckets, compression)
        self._add_memory_fields(meta, made, twice)
        self.set_defaults(asdict(Training()))

    def _add_gradient_fields(self, reduction: str, output: str, buckets: str, compression: str) -> None:
        """Add how devices exchange gradients and outputs."""
        changed = self.changed.emit
        self._add(
            reduction,
            cross_device_ops=editors.one_of(
                "crossDeviceOpsBox", reduction, tr("How MirroredStrategy adds up gradients; NCCL is for GPUs only"),
                changed, [(tr(REDUCTION_TITLES.get(name, name)), name) for name in CROSS_DEVICE_OPS],
            ),
        )  # fmt: skip
        self._add(
            output,
            output_device=editors.integer(
                "outputDeviceBox", output,
                tr("Which of the ticked devices gathers the outputs and computes the loss, counted from 0"), changed,
                minimum=0,
            ),
        )  # fmt: skip
        self._add(
            buckets,
            bucket_mb=editors.number(
                "bucketEdit", buckets,
                tr("Gradients that are reduced at once, while others are computed; empty: PyTorch's 25 MB"), changed,
                empty="25",
            ),
        )  # fmt: skip
        self._add(
            compression,
            gradient_compression=editors.one_of(
                "compressionBox", compression,
                tr("Send fewer bytes per gradient. The curve differs from that of one device. bfloat16 is for GPUs "
                   "only."), changed,
                [(tr(COMPRESSION_TITLES.get(name, name)), name) for name in GRADIENT_COMPRESSIONS],
            ),
        )  # fmt: skip

    def _add_memory_fields(self, meta: str, made: str, twice: str) -> None:
        """Add what makes a model need less memory."""
        changed = self.changed.emit
        self._add(
            meta,
            meta_device=editors.check(
                "metaDeviceBox", meta,
                tr("Make the model in shards, so that no process ever holds the whole of it. Its weights stay the "
                   "same."), changed, text=" ",
            ),
        )  # fmt: skip
        self._add(
            made,
            make_on_device=editors.check(
                "makeOnDeviceBox", made,
                tr("Make the model in the memory of each rank's device, not of the host. A GPU draws other random "
                   "numbers than the CPU, so its first weights are others."), changed, text=" ",
            ),
        )  # fmt: skip
        self._add(
            twice,
            activation_checkpointing=editors.check(
                "activationBox", twice,
                tr("Keep only the inputs of each block, and compute the block again in the backward pass: less memory, "
                   "about a third more computing"),
                changed, text=" ",
            ),
        )  # fmt: skip

    def show_strategy(self, framework: str, strategy: str) -> None:
        """Show the settings that this framework and strategy have."""
        hidden = without_meaning(framework, strategy)
        for row in STRATEGY_SETTINGS:
            self._show_row(row.name, shown=row.name not in hidden)
