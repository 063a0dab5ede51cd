"""User programs, analysed without importing them.

- `syntax`: what one source file imports, calls, reads and sets
- `source`: read a program's files, follow its imports to its own modules; their text and hashes
- `launch_signs`: which launch the program was written for
- `analysis`: the result for the whole program; what should be known before the start, although it prevents nothing
- `problems`: what would end the program at once, by asking its Python
"""
