"""Has packages of its own that are called like Trainyard's."""

import sys

from core.model import losses

import core
import gui
import resources

print(sys.argv[1:], __name__, sys.path[0])
for step, loss in enumerate(losses(), start=1):
    print(f"step {step} loss {loss}")
assert core.OWNER == gui.OWNER == resources.OWNER == "the user"
