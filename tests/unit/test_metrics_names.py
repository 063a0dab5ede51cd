"""Metric names: different spellings map to one name, and counters are not metrics."""

import pytest

from core.metrics.reading import canonical, counts, is_counter

SAME = {
    "loss": ["loss", "Loss", "train_loss", "train/loss", "Train Loss", "training_loss", "Loss/train", "avg_loss",
             "Average loss", "trainLoss", "train_loss_step", "train-loss", "trainloss"],
    "val_loss": ["val_loss", "val/loss", "valid_loss", "eval_loss", "eval/loss", "validation loss", "test_loss",
                 "Loss/test", "Validation Loss", "valLoss", "avg_val_loss", "testloss"],
    "accuracy": ["acc", "train_acc", "Accuracy", "train/accuracy", "Training Accuracy"],
    "val_accuracy": ["val_acc", "val_accuracy", "eval_accuracy", "test/acc", "Test Accuracy"],
    "learning_rate": ["lr", "learning rate", "learning_rate", "train/learning_rate", "LR", "Learning Rate"],
    "grad_norm": ["grad_norm", "train/grad_norm", "Grad Norm"],
    "val_miou": ["val_mIoU"],
    "loss_cls": ["loss_cls", "train/loss_cls"],
    "acc@1": ["Acc@1"],
    "train": ["train"],
    "loss_epoch": ["train_loss_epoch"],
}


@pytest.mark.parametrize(("ours", "theirs"), [(ours, name) for ours, names in SAME.items() for name in names])
def test_spellings_of_a_metric_map_to_one_name(ours: str, theirs: str) -> None:
    assert canonical(theirs) == ours
    assert not is_counter(theirs)


@pytest.mark.parametrize(
    ("name", "what"),
    [("step", "step"), ("global_step", "step"), ("Iteration", "step"), ("iter", "step"),
     ("trainer/global_step", "step"),
     ("epoch", "epoch"), ("Epoch", "epoch"), ("batch", None), ("time", None), ("eta", None), ("elapsed", None),
     ("it/s", None), ("samples/s", None), ("train_runtime", None), ("eval_samples_per_second", None),
     ("data_time", None), ("v_num", None), ("tokens_per_sec", None), ("wall time", None), ("batch_size", None)],
)
def test_counter_is_not_a_metric(name: str, what: str | None) -> None:
    assert is_counter(name)
    assert counts(name) == what
