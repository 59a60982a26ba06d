"""The log of the worker: the logger `mailroom`, on standard error unless the program configures logging."""

from __future__ import annotations

import logging
import sys
import traceback
from typing import Any


class Log:
    """Writes lines `phrase key=value …`. It never raises: a handler may close standard output and error."""

    def __init__(self) -> None:
        self.logger = logging.getLogger("mailroom")

    def __call__(self, level: int, phrase: str, *, exc: BaseException | None = None, **attributes: Any) -> None:
        try:
            line = " ".join([phrase, *(f"{k}={_shown(v)}" for k, v in attributes.items())])
            if exc is not None:  # where it was raised, without its text, which may be that of a message
                frames = traceback.extract_tb(exc.__traceback__)[-20:]
                line += "".join(f"\n  {f.filename}:{f.lineno} in {f.name}" for f in frames)
                line += f"\n  {type(exc).__name__}"
            self.logger.log(level, "%s", line)
        except Exception:  # such as ValueError of a closed stream
            pass


class _Stderr(logging.StreamHandler):  # type: ignore[type-arg]
    def handleError(self, record: logging.LogRecord) -> None:
        """Drops the line: standard error is closed."""


def to_stderr() -> None:
    """Shows INFO lines on standard error, unless the program has configured logging itself."""
    logger = logging.getLogger("mailroom")
    if logger.handlers or logging.getLogger().handlers or sys.stderr is None:
        return
    shown = _Stderr(sys.stderr)
    shown.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    logger.addHandler(shown)
    logger.setLevel(logging.INFO)
    logger.propagate = False


def _shown(value: Any) -> str:
    text = str(value)[:300]
    return repr(text) if not text or any(c.isspace() or not c.isprintable() for c in text) else text
