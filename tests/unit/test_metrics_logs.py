"""LogReader: complete logs give the right values at the right steps, without duplicates, and the progress."""

from pathlib import Path

import pytest

from core.metrics.reading import IN_EPOCH
from core.metrics.text.log import LogReader
from tests.support import printed
from tests.support.printed import progress, read, series
from tests.support.recorded_logs import recorded_logs


def test_progress_is_that_within_an_epoch_where_the_number_of_epochs_is_not_printed() -> None:
    logs = {log.name: read(log.data) for log in recorded_logs()}
    assert progress(logs["pytorch_imagenet"]) == [(1, 391, IN_EPOCH), (11, 391, IN_EPOCH), (1, 391, IN_EPOCH)]
    assert progress(logs["lightning_tqdm"]) == [(at, 4, IN_EPOCH) for at in (0, 1, 2, 4, 0, 1, 4)]
    epochs = [reading.epoch for reading in logs["pytorch_quickstart"] if "loss" in reading.values]
    assert epochs == [reading.epoch for reading in logs["pytorch_tutorial_cifar"]] == [1, 1, 2]
    for name in ("hf_bars", "trainer_with_bars", "tqdm_ascii"):
        reported = progress(logs[name])
        assert reported == sorted(reported), "the bar of an evaluation is not that of the training"


def test_dictionary_before_any_progress_bar_is_read_at_once() -> None:
    reader = LogReader()
    (reading,) = reader.take(b"{'accuracy': 0.68, 'f1': 0.81}\n")
    assert (reading.step, reading.values) == (None, {"accuracy": 0.68, "f1": 0.81})


@pytest.mark.e2e
@pytest.mark.parametrize("verbose", ["1", "2"])
def test_keras_fit_log(verbose: str, written_by_keras: Path) -> None:
    readings = read((written_by_keras / f"printed-{verbose}.txt").read_bytes())
    lines = (written_by_keras / f"reported-{verbose}.txt").read_text().splitlines()
    reported = [dict(pair.split("=") for pair in line.split()) for line in lines]
    for name in ("loss", "mae"):
        values = series(readings, name)
        ends = dict(values)
        assert [ends[step] for step in (6, 12, 18)] == [float(epoch[name]) for epoch in reported]
        assert len(ends) == len(values), "a step has two values"
        assert set(ends) <= set(range(1, 19))
        # `evaluate` prints the last line; it repeats the validation of the last epoch.
        expected = [(step, float(epoch[f"val_{name}"])) for step, epoch in zip((6, 12, 18), reported, strict=True)]
        assert series(readings, f"val_{name}") == [*expected, expected[-1]]
    done = [reading.done / reading.total for reading in readings if reading.done is not None and reading.total]
    assert done == sorted(done)
    assert done[-1] == 1


def test_other_progress_bars_are_not_training_progress() -> None:
    readings = read(
        f"model.safetensors: 100%|{printed.FULL}| 1.2G/1.2G [00:10<00:00, 120MB/s]\n"
        f"Map: 100%|{printed.FULL}| 1000/1000 [00:00<00:00, 5000.12 examples/s]\n"
        f"100%|{printed.FULL}| 9912422/9912422 [00:01<00:00, 9012345.12it/s]\n"
        "  0%|          | 0/4 [00:00<?, ?it/s]\r 50%|#####     | 2/4 [00:00<00:00, 9.8it/s, loss=0.5]\n"
    )
    assert series(readings, "loss") == [(2, 0.5)]
    assert progress(readings)[-1] == (2, 4, "steps")
    log = "Epoch [1/2], Step [100/200], Loss: 0.5\n 50%|#####     | 5/10 [00:00<00:00, 9.8it/s]\n"
    assert series(read(log + "Epoch [1/2], Step [200/200], Loss: 0.4\n"), "loss") == [(100, 0.5), (200, 0.4)]
    named = f"Encoding images:  50%|{printed.FULL}| 500/1000 [00:01<00:01, 500.00it/s]\n"
    for text, expected in (
        (named, []),
        (named.replace("Encoding images", "Epoch 1"), [(500, 1000, IN_EPOCH)]),
        (log, [(100, 400, "steps")]),
        ("Epoch 1/4\nEpoch 2/4\n", [(0, 4, "epochs"), (1, 4, "epochs")]),  # a started epoch is not done
        ("Epoch 1/4 done\nEpoch 2/4: loss 0.5\n", [(1, 4, "epochs"), (2, 4, "epochs")]),
    ):
        assert progress(read(text)) == expected


def test_steps_go_on_through_epochs_and_fits_but_are_not_counted_twice() -> None:
    fit = "Epoch 1/1\n4/4 - 1s - 3ms/step - loss: 0.9\n"
    assert series(read(fit * 3), "loss") == [(4, 0.9), (8, 0.9), (12, 0.9)]
    restarted = "".join(f"epoch {epoch} step {step} loss {epoch}.{step}\n" for epoch in (0, 1) for step in range(3))
    assert series(read(restarted), "loss") == [(0, 0.0), (1, 0.1), (2, 0.2), (3, 1.0), (4, 1.1), (5, 1.2)]
    over_all = "Epoch 1/2\nstep 50/200 loss 0.9\nstep 90/200 loss 0.8\nEpoch 2/2\nstep 150/200 loss 0.7\n"
    assert series(read(over_all), "loss") == [(50, 0.9), (90, 0.8), (150, 0.7)]
