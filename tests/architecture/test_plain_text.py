"""Check that every text of the window is shown through `gui.widgets.plain_text`, since Qt may take it for HTML."""

import ast
from pathlib import Path

import gui

ROOT = Path(gui.__file__).resolve().parents[1]
HELPER = ROOT / "gui" / "widgets" / "plain_text.py"
CODE = [path for path in sorted((ROOT / "gui").rglob("*.py")) if path != HELPER]
TOOLTIP_ARGUMENT = {"setToolTip": 0, "setStatusTip": 0, "setWhatsThis": 0, "setTabToolTip": 1, "setItemToolTip": 1}
"""By method, the position of the text."""
INTERPRETING = {
    "QLabel", "QMessageBox", "QInputDialog", "QErrorMessage", "QProgressDialog", "QWizardPage",
    "QTextBrowser", "QGraphicsTextItem", "QStaticText", "QToolTip", "QWhatsThis", "QSystemTrayIcon", "LegendItem",
    "LabelItem",
}
"""Classes that take a text for HTML if it looks like HTML. Only the helper may use `QLabel`."""
INTERPRETING_METHODS = {"setHtml", "insertHtml", "appendHtml", "setMarkdown", "setTextFormat", "setTitle", "setLabel"}
"""Methods that take HTML; the last two are pyqtgraph's."""
KEYWORDS = {"html", "toolTip", "statusTip", "whatsThis"}
ITEM_DATA = {"setData", "setItemData", "setHeaderData"}


def problems(source: str) -> list[str]:
    """Return the parts of a module that give Qt a text which it may take for HTML."""
    found = []
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Name(id=name) | ast.alias(name=name) | ast.Attribute(attr=name) if name in INTERPRETING:
                found.append(name)
            case ast.Call(func=ast.Name(id="QTextEdit")):  # not `QTextEdit.ExtraSelection()`
                found.append("QTextEdit")
            case ast.keyword(arg=name) if name in KEYWORDS:
                found.append(ast.unparse(node))
            case ast.Call(func=ast.Attribute(attr=method)) if not _is_safe(node, method):
                found.append(ast.unparse(node))
    return found


def _is_safe(call: ast.Call, method: str) -> bool:
    if method in INTERPRETING_METHODS:
        return False
    if method in TOOLTIP_ARGUMENT:
        return _is_fixed(call.args[TOOLTIP_ARGUMENT[method]])
    if method in ITEM_DATA and any("ToolTipRole" in ast.unparse(each) for each in call.args):
        return any(_is_fixed(each) and not isinstance(each, ast.Constant) for each in call.args)
    # A form makes a label of a text in front of a field; an empty text only aligns the field with others.
    return method != "addRow" or len(call.args) < 2 or isinstance(call.args[0], ast.Call) or not _text(call.args[0])


def _text(node: ast.expr) -> object:
    return node.value if isinstance(node, ast.Constant) else node


def _is_fixed(text: ast.expr) -> bool:
    """Whether a text is a literal or a constant of ours, the translation of one, or goes through `verbatim`."""
    match text:
        case ast.Name(id=name):
            return name.isupper()
        case ast.JoinedStr(values=parts) | ast.BoolOp(values=parts):
            return all(_is_fixed(part) for part in parts)
        case ast.FormattedValue(value=value):
            return _is_fixed(value)
        case ast.IfExp(body=body, orelse=orelse):
            return _is_fixed(body) and _is_fixed(orelse)
        case ast.Call(func=ast.Name(id="tr"), args=[sentence], keywords=values):  # the catalogue is ours
            return all(_is_fixed(each) for each in (sentence, *(each.value for each in values)))
    return isinstance(text, ast.Constant) or ast.unparse(text).startswith("verbatim(")


def test_no_widget_shows_a_text_that_qt_may_take_for_html() -> None:
    assert [f"{path.relative_to(ROOT)}: {each}" for path in CODE for each in problems(path.read_text("utf-8"))] == []


def test_the_check_finds_what_it_is_for() -> None:
    refused = (
        "w.setToolTip(name)", 'w.setToolTip(tr("{name}", name=name))', "w.setToolTip(tr(name))",
        'w.setToolTip(f"{name}")', "w.setToolTip(TIP if x else name)", "QLabel(name)",
        "class A(QLabel): pass", "box.setItemData(0, name, Qt.ItemDataRole.ToolTipRole)",
        "item.setData(Qt.ItemDataRole.ToolTipRole, name)", "QMessageBox.warning(w, name, name)",
        "QtWidgets.QLabel(name)", "QToolTip.showText(at, name)", "form.addRow('Name', field)", "pg.TextItem(html=name)",
        "tabs.setTabToolTip(0, name)", "label.setTextFormat(Qt.TextFormat.AutoText)",
    )
    allowed = (
        "w.setToolTip('a' if x else TIP)", "w.setToolTip(tr('a') if x else tr(TIP))",
        "w.setToolTip(verbatim(name))", "PlainLabel(name)",
        "box.setItemData(0, verbatim(name), Qt.ItemDataRole.ToolTipRole)", "form.addRow(label('a', f), f)",
    )
    assert [each for each in refused if not problems(each)] == []
    assert [each for each in allowed if problems(each)] == []
