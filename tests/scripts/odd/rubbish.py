"""Prints what is no text, lines of 10 MB, and in the end no newline at all."""

import os
import sys

out = sys.stdout.buffer
out.write(os.urandom(200_000))
out.write(b"\nstep 1 loss 0.5\n")
out.write(b"x" * 10_000_000 + b"\n")
out.write(b"\x1b[31mstep 2 loss 0.25\x1b[0m\n")
out.write(b"\xff\xfe\x00\x01" * 50_000)
out.write(b"\nstep 3 loss 0.125")
out.flush()
