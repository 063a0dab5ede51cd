"""Open a window that shows each new run, for a test that measures the process from outside.

    python -m tests.support.watching RUNS_ROOT

It shows every run once, in order, and then prints a line with the run's name.
"""

import os
import sys
from pathlib import Path

from PySide6.QtCore import QTimer
from PySide6.QtWidgets import QApplication

from gui.app import create_window

LOOK_MS = 50


def main() -> int:
    """Show the window until stdin ends."""
    app = QApplication(sys.argv[:1])
    window = create_window(Path(sys.argv[1]))
    window.show_close_notice = lambda _: None
    window.show()
    os.set_blocking(0, False)
    seen: set[Path] = set()

    def look() -> None:
        try:
            if os.read(0, 1) == b"":
                window.close()
                app.quit()
                return
        except BlockingIOError:
            pass
        window.services.run_list.poll(now=True)
        new = next((each.dir for each in reversed(window.services.run_list.summaries) if each.dir not in seen), None)
        if new is not None:
            seen.add(new)
            window.controllers.run.attach_to(str(new))
            print(new.name, flush=True)

    timer = QTimer()
    timer.timeout.connect(look)
    timer.start(LOOK_MS)
    return app.exec()


if __name__ == "__main__":
    sys.exit(main())
