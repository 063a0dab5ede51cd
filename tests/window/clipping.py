"""Find text that does not fit its widget."""

from PySide6.QtWidgets import QAbstractButton, QComboBox, QLabel, QLineEdit

from gui.widgets.elided_label import ElidedLabel, ReadoutLabel


def clipped(window) -> list[str]:
    """Return the visible labels, buttons and fields that are smaller than their text.

    Labels that cut their text with an ellipsis, or give way to their neighbours, are left out.
    """
    found = []
    for each in window.findChildren(QLabel) + window.findChildren(QAbstractButton):
        if not each.isVisible() or isinstance(each, (ElidedLabel, ReadoutLabel)) or not each.text():
            continue
        wraps = isinstance(each, QLabel) and each.wordWrap()
        needed = each.heightForWidth(each.width()) if wraps else each.fontMetrics().height()
        if each.height() < needed or (not wraps and each.width() < each.minimumSizeHint().width()):
            found.append(each.objectName() or each.text())
    fields = [each for each in window.findChildren(QComboBox) + window.findChildren(QLineEdit) if each.isVisible()]
    low = [each.objectName() for each in fields if each.contentsRect().height() < each.fontMetrics().height()]
    return found + low
