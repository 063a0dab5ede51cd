"""User programs, analysed without importing them.

- `source`, `imports`, `names`: read the program's syntax tree
- `usage`, `launch_signs`: which launch the program was written for
- `missing_packages`: imports that its Python lacks
- `analysis`, `problems`: the result, and what would end the program at once
"""
