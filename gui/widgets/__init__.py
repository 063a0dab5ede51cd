"""General widgets that know nothing about training.

- `message_strip`, `confirm_dialog`, `name_dialog`, `notice_window`: messages and questions
- `dock`, `table`, `search_bar`, `elided_label`: docks, tables, search, shortened text
- `plain_text`: labels and tooltips that are never taken for HTML
- `painting`, `file_drop`: shared painting; dropped files
"""
