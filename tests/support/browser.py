"""Open a file of HTML in a real browser (Qt WebEngine, Chromium's engine), and print what a script in it returns.

    python browser.py FILE SCRIPT [PICTURE]

It is started by its path, with a Python that has QtWebEngine (package PySide6-Addons), and prints one JSON document:
`loaded`, `result` of the script, `asked`: addresses that the page asked for beside itself, and `said`: what the browser
wrote to its console. `PICTURE`: a PNG of the window.
"""

from __future__ import annotations

import json
import os
import sys

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
os.environ["QTWEBENGINE_DISABLE_SANDBOX"] = "1"  # which root cannot have
os.environ["QTWEBENGINE_CHROMIUM_FLAGS"] = "--disable-gpu"
SIZE = 1400, 1000
LOAD_S = 60
PAINT_MS = 1500


def main() -> None:
    """Open the page."""
    from PySide6.QtCore import QTimer, QUrl
    from PySide6.QtWebEngineCore import QWebEnginePage, QWebEngineUrlRequestInterceptor
    from PySide6.QtWebEngineWidgets import QWebEngineView
    from PySide6.QtWidgets import QApplication

    path, script, *picture = sys.argv[1:]
    found: dict[str, object] = {"loaded": False, "asked": [], "said": [], "result": None}
    asked, said = [], []

    class Watch(QWebEngineUrlRequestInterceptor):
        def interceptRequest(self, info: object) -> None:  # noqa: N802 (Qt's name)
            address = info.requestUrl().toString()  # type: ignore[attr-defined]
            if address != QUrl.fromLocalFile(path).toString():
                asked.append(address)

    class Page(QWebEnginePage):
        def javaScriptConsoleMessage(self, *words: object) -> None:  # noqa: N802 (Qt's name)
            said.append(str(words[1]))

    app = QApplication(sys.argv[:1])
    view = QWebEngineView()
    watch, page = Watch(), Page(view)
    page.setUrlRequestInterceptor(watch)
    view.setPage(page)
    view.resize(*SIZE)

    def end() -> None:
        if picture:
            view.grab().save(picture[0])
        found.update(asked=asked, said=said)
        app.quit()

    def keep(result: object) -> None:
        found["result"] = result
        QTimer.singleShot(PAINT_MS if picture else 0, end)

    def take(loaded: bool) -> None:
        found["loaded"] = loaded
        page.runJavaScript(script, 0, keep)

    page.loadFinished.connect(take)
    QTimer.singleShot(1000 * LOAD_S, app.quit)
    view.show()
    view.load(QUrl.fromLocalFile(path))
    app.exec()
    print(json.dumps(found))


if __name__ == "__main__":
    main()
