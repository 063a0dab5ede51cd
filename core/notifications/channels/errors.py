"""Why a message was not delivered. The sentences have no secrets: they are recorded in runs."""


class NotDeliveredError(Exception):
    """A message was not delivered. `str()` is a sentence; `detail` is for the user alone."""

    def __init__(self, sentence: str, detail: str = "") -> None:
        super().__init__(sentence)
        self.detail = detail


class NoDesktopError(NotDeliveredError):
    """There is no desktop that could show a message, as on a server. This is no failure."""


class TemporaryError(NotDeliveredError):
    """A service cannot be reached, or cannot take a message now; it may be able to a little later."""
