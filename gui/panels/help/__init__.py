"""What the menu Help opens; created when it is asked for.

- `about_dialog`: version, licences, folders
- `keys_dialog`: the list of keys
- `documents_dialog`: the documents that are installed
"""
