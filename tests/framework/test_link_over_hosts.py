"""The backend with which ranks on several machines meet, and the check of their link. No GPU is needed: stand-ins."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from core.schema.event_kinds import LinkSpeed
from core.worker.context import Context
from core.worker.pytorch import distributed


class Recorder(SimpleNamespace):
    """The context of a rank, as far as joining reads it."""

    def __init__(self, kind: str, folder: Path) -> None:
        assignment = SimpleNamespace(kind=kind, meeting="", world_size=1, rank=0)
        super().__init__(assignment=assignment, rank=0, world_size=1, run_dir=folder, links=[])

    check_link = Context.check_link

    def enter_phase(self, name: str) -> None:
        assert name == "join"

    def record(self, link: LinkSpeed) -> None:
        self.links.append(link.fields())


@pytest.mark.parametrize(("kind", "backend"), [("cpu", "gloo"), ("nvidia", "nccl")])
def test_ranks_on_gpus_meet_with_nccl_and_others_with_gloo(tmp_path, monkeypatch, kind, backend) -> None:
    chosen: list[Any] = []
    monkeypatch.setattr(distributed.dist, "init_process_group", lambda name, **_: chosen.append(name))
    distributed.join(Recorder(kind, tmp_path))  # type: ignore[arg-type]  # what it reads of it
    assert chosen == [backend]


@pytest.mark.parametrize(("backend", "device"), [("gloo", "cpu"), ("nccl", "cuda")])
def test_link_is_checked_the_same_way_with_either_backend(tmp_path, monkeypatch, backend, device) -> None:
    """The sums are those of a real group of one rank with gloo; for NCCL, its tensors are on the CPU instead."""
    devices: list[str] = []

    def ones(count: int, *, device: str) -> torch.Tensor:
        devices.append(device)
        return torch.full((count,), 1.0)

    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    try:
        monkeypatch.setattr(distributed.dist, "get_backend", lambda: backend)
        monkeypatch.setattr(distributed.torch, "ones", ones)
        context = Recorder("cpu", tmp_path)
        distributed.check_link(context)  # type: ignore[arg-type]  # what it reads of it
        (link,) = context.links
        assert set(devices) == {device}
        assert link["backend"] == backend
        assert link["bytes"] == 1024 * 1024
        assert link["bytes_per_s"] == pytest.approx(link["bytes"] / link["seconds"])

        context.world_size = 2  # a sum that is wrong
        with pytest.raises(RuntimeError, match="A test of the network between the machines gave wrong sums"):
            distributed.check_link(context)  # type: ignore[arg-type]  # as above
    finally:
        torch.distributed.destroy_process_group()
