"""General widgets that know nothing about training.

- `messages`, `confirm_dialog`, `name_dialog`, `dialog`, `notice_window`: messages and questions
- `dock`, `table`, `search_bar`, `elided_label`: docks, tables, search, shortened text
- `choice_box`, `steady_button`, `file_dialog`: boxes with whole lists, buttons that keep the focus, files to choose
- `context_menu`: context menus
- `plain_text`: labels and tooltips that are never taken for HTML
- `reading_bar`: how much of a run was read
- `compact`: small buttons and check boxes
- `painting`, `file_drop`: shared painting; dropped files
- `announcement`: what a screen reader is told
- `overlay`: a widget over the top or the foot of another one
"""
