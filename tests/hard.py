"""Run the tests on one core beside three busy processes, in a random order: a check before a release.

    python -m tests.hard [SEED] [ARGUMENT_OF_PYTEST ...]

A test that fails here depends on how fast the machine is, or on the tests before it. The seed is printed; with it, the
tests run in the same order again. Takes about four times as long as `make test`.
"""

import os
import random
import subprocess
import sys

BUSY = 3
LOOP = "import os\nparent = os.getppid()\nwhile os.getppid() == parent: pass"
"""A busy process. It ends with the process that started it, however that ends."""


def main(arguments: list[str]) -> int:
    """Return the exit code of pytest."""
    has_seed = arguments[:1] and arguments[0].isdecimal()
    seed = arguments.pop(0) if has_seed else str(random.randrange(10**6))
    core = max(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {core})  # inherited by all that is started here
    print(f"On core {core} beside {BUSY} busy processes, in the order of the seed {seed}.", flush=True)
    loops = [subprocess.Popen([sys.executable, "-c", LOOP]) for _ in range(BUSY)]
    try:
        return subprocess.call([sys.executable, "-m", "pytest", "--shuffle", seed, *arguments])
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
