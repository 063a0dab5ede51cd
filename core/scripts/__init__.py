"""User programs, analysed without importing them.

- `syntax`: what one source file imports, calls, reads and sets
- `source`: read a program's files, and follow its imports to its own modules
- `own_files`: the text of a program and its own modules, and their hashes
- `launch_signs`: which launch the program was written for
- `analysis`: the result for the whole program
- `cautions`: what should be known before the start, although it prevents nothing
- `problems`: what would end the program at once, by asking its Python
"""
