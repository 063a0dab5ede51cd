"""The Simplified Chinese catalogue: what runs store is recognised and shown whole, and so is the help."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from babel.messages.pofile import read_po

from core import language
from core.cli.__main__ import main
from core.devices.cpu import cpu_devices
from core.devices.device import Device, Sample, Survey
from core.devices.names import shown_name
from core.diagnosis.timeline import Timeline, metric_title
from core.history.summary import setting_words
from core.language import Message, stored, tr, tr_plural
from core.schema.event_kinds import WorkerError
from core.schema.events import Tail
from core.schema.spec import RankAssignment
from core.supervisor.watches import SlowdownWatch
from core.supervisor.workers import Worker, describe
from core.text import as_sentence, enumerated, join_names, join_phrases
from gui.runs.verdicts import PAST, past_tense


@pytest.fixture(autouse=True)
def chinese():
    language.use("zh_CN")
    yield
    language.use("en")


def read_back(make: Callable[[], object]) -> Message:
    """Return what a process that speaks English has written."""
    language.use("en")
    text = json.dumps(stored(make()))
    language.use("zh_CN")
    return Message.read(json.loads(text))


def failed_worker(message: str) -> Worker:
    assignment = RankAssignment(
        rank=0, world_size=1, devices=("GPU 4",), own=("GPU 4",), kind="nvidia", cores=(), target="pytorch.ddp",
    )
    worker = Worker(assignment, None, None, Tail(Path("none")))
    worker.error = WorkerError(type_name="OutOfMemoryError", message=message)
    return worker


def slowed() -> str:
    device = Device(id="a", kind="nvidia", label="GPU 2", name="")
    sample = Sample(device_id="a", time=1.0, temperature_celsius=91.0, clock_reasons=("too hot",))
    watch = SlowdownWatch(["a", "b"], waits=True)
    return [*watch.poll(Survey(devices=(device,), samples=(sample,)), 0.0),
            *watch.poll(Survey(devices=(device,), samples=(sample,)), 1e6)][0].sentence


STORED = (
    (slowed, "GPU 2 已降频：91 °C。它拖慢了其他设备。请检查它的散热。"),
    (
        lambda: describe(failed_worker("CUDA out of memory. Tried to allocate 2.00 GiB.")),
        "工作进程 0（GPU 4）：OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.",
    ),
    (lambda: describe(failed_worker(tr("The loss became {value} at step {step}.", value="NaN", step=3))),
     "工作进程 0（GPU 4）：OutOfMemoryError: 损失在第 3 步变为 NaN。"),
    (lambda: enumerated(["pid 1", "pid 2", "c", "d", "e", "f", "g"]), "pid 1；pid 2；c；d；e；另外 2 个"),
)


@pytest.mark.parametrize(("make", "shown"), STORED)
def test_what_a_run_stored_is_shown_whole(make, shown):
    found = tr(read_back(make))
    assert found == shown
    assert tr(found) == shown, "a text that is translated already stays"


def test_names_phrases_and_counts_are_joined_as_in_chinese():
    assert join_names(["GPU 0", "GPU 1", "GPU 2"]) == "GPU 0、GPU 1 和 GPU 2"
    assert join_names(["a", "b"], "or") == "a 或 b"
    assert join_phrases(["一", "二"]) == "一，二"
    assert as_sentence("已停止") == "已停止。"
    assert language.join_sentences([tr("Stopped."), "", None, "In English.", "More."]) == "已停止。In English. More."
    assert [tr_plural("{count} process", "{count} processes", count) for count in (1, 2)] == ["1 个进程", "2 个进程"]
    titles = [metric_title(name) for name in ("loss", "val_loss", "val_top_5", "top_5")]
    assert titles == ["损失", "验证损失", "验证 top 5", "top 5"], "other metrics keep their names"


def test_the_account_of_a_run_is_chinese():
    timeline = Timeline(None, "PyTorch")
    timeline.fold(
        [
            {"kind": "state", "t": 1.0, "state": "starting"},
            {"kind": "state", "t": 2.0, "state": "running"},
            {"kind": "metrics", "t": 3.0, "first": 1, "values": {"val_loss": [0.5], "val_accuracy": [0.75]}},
            {"kind": "stop_step", "t": 4.0, "name": "SIGINT", "grace_s": 30.0},
            {"kind": "state", "t": 5.0, "state": "stopped"},
        ]
    )
    assert "第 1 步：验证损失 0.5，验证 accuracy 0.75" in [each.text for each in timeline.entries]
    assert "已向进程发送 SIGINT。它们有 30 秒时间。" in [each.text for each in timeline.entries]


def test_help_and_errors_of_the_command_line_are_chinese(capsys, monkeypatch):
    monkeypatch.setenv("LANGUAGE", "zh_CN")
    monkeypatch.setenv("COLUMNS", "60")
    with pytest.raises(SystemExit):
        main(["stop", "--help"])
    text = capsys.readouterr().out
    assert text.startswith("用法：trainyard stop")
    assert "显示此帮助信息并退出" in text
    assert not re.search("show this help|positional|options:", text)
    with pytest.raises(SystemExit):
        main(["run", "--epochs", "x"])
    assert capsys.readouterr().err == "trainyard: --epochs 的值是 'x'。请给出整数。见 trainyard run --help。\n"


def test_notices_of_a_run_that_is_over_are_told_as_past():
    reader, _, stragglers, _ = PAST
    assert past_tense(read_back(lambda: tr(reader))) == (
        "从脚本输出中读取指标数据的进程已结束，因此曲线到此为止。脚本之后继续运行，日志是完整的。"
    )
    assert (
        past_tense(read_back(lambda: tr(stragglers, pids="7"))) == "训练已完成，但这些进程没有退出，已被终止：pid 7。"
    )
    assert past_tense(Message.read({"text": "T", "say": stragglers, "with": {}})) == "T"
    with (language.FOLDER / "zh_CN" / "LC_MESSAGES" / "trainyard.po").open("rb") as file:
        catalogue = read_po(file, locale="zh_CN")
    for template in PAST:
        found = catalogue.get(template)
        assert found is not None
        assert any(path.startswith("core/") for path, _ in found.locations), "a run writes it"


def test_names_of_cpu_devices_are_chinese_where_they_are_shown() -> None:
    """The stored name is English, and names the same device in every language."""
    assert shown_name("Intel(R) Xeon(R) CPU @ 2.20GHz, 1 core") == "Intel(R) Xeon(R) CPU @ 2.20GHz，1 个核心"
    assert shown_name("aarch64, 12 cores") == "aarch64，12 个核心"
    assert setting_words("devices", "2 × aarch64, 4 cores + 1 × RTX 4090") == "2 × aarch64，4 个核心 + 1 × RTX 4090"
    for name in ("NVIDIA H100 80GB HBM3", "core", "a, cores", ""):
        assert shown_name(name) == name
    stored = cpu_devices()[0].name
    assert re.search(r", \d+ cores?$", stored)
    assert "core" not in shown_name(stored).rpartition("，")[2]
    language.use("en")
    assert shown_name(stored) == stored
