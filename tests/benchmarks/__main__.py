"""All benchmarks, one after the other, each in a process of its own: `make bench`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def main() -> int:
    """Run every `bench_*.py`; 1 if one of them failed."""
    failed = []
    for path in sorted(Path(__file__).parent.glob("bench_*.py")):
        done = subprocess.run([sys.executable, "-m", f"tests.benchmarks.{path.stem}"], check=False)
        if done.returncode:
            failed.append(path.stem)
    if failed:
        print(f"\nFailed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
