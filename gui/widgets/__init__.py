"""General widgets that know nothing about training.

- `fields`, `forms`, `buttons`: input
- `dialogs`, `messages`: questions and information; messages below the plots
- `table`, `context_menu`, `layouts`: tables, menus; rows and columns
- `plain_text`, `elided_label`: text that is never taken for HTML; shortened text
"""
