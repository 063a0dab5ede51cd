"""All benchmarks, one after the other, each in a process of its own: `make bench`."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path


def main() -> int:
    """Run every `bench_*.py`; 1 if one of them failed."""
    failed, spent = [], []
    for path in sorted(Path(__file__).parent.glob("bench_*.py")):
        began = time.monotonic()
        benchmark = subprocess.Popen([sys.executable, "-m", f"benchmarks.{path.stem}"])
        try:
            benchmark.wait()
        except KeyboardInterrupt:
            benchmark.wait()  # it has heard it, too, and ends what it has started
            return 1
        spent.append((path.stem, time.monotonic() - began))
        if benchmark.returncode:
            failed.append(path.stem)
    print(f"\nThis took {sum(seconds for _, seconds in spent) / 60:.0f} min:", end=" ")
    print(", ".join(f"{name} {seconds / 60:.1f}" for name, seconds in spent))
    if failed:
        print(f"Failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
