"""One rank in the process of the test, without a run around it."""

from pathlib import Path

from core.schema.spec import RankAssignment

ALONE = RankAssignment(
    rank=0, world_size=1, devices=("cpu:0",), own=("cpu:0",), kind="cpu", cores=(), target="pytorch.strategies:single"
)


class Ranks:
    """This process as the only one of several ranks. Counts the reductions."""

    in_step = False

    def __init__(self) -> None:
        self.reductions = 0

    def wait_for(self, losses: list[float]) -> None:
        pass

    def reduce(self, losses: list[float], shares: list[float], numbers: list[float]) -> list[float]:
        self.reductions += 1
        return [*(loss * share for loss, share in zip(losses, shares, strict=True)), *numbers]

    def collect_files(self, folder: Path) -> None:
        pass
