"""General widgets that know nothing about training.

- `forms`, `dialogs`: fields; questions and information in windows of their own
- `messages`: messages below the plots
- `dock`, `table`, `overlay`: docks, tables; a widget over the top or the foot of another one
- `plain_text`, `elided_label`: labels and tooltips that are never taken for HTML; shortened text
- `compact`, `steady_button`: small buttons and check boxes; buttons that keep the focus
- `context_menu`: context menus
- `layouts`: rows and columns of widgets
- `painting`: shared painting
- `announcement`: what a screen reader is told
"""
