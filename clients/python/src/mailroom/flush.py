"""Sends what attempts have written while they run."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

from .attempt import Attempt


class Flusher:
    """Has a thread for each slot, so that an attempt whose text goes out slowly delays no other one."""

    def __init__(self, slots: int) -> None:
        self._pool = ThreadPoolExecutor(slots, "mailroom flush")
        self._busy: set[Attempt] = set()  # owned by _lock
        self._lock = threading.Lock()

    def look(self, attempt: Attempt) -> None:
        """Begins to send what the attempt has written, unless that is under way."""
        with self._lock:
            if attempt in self._busy or not attempt.behind:
                return
            self._busy.add(attempt)
        self._pool.submit(self._flush, attempt)

    def close(self) -> None:
        """Ends its threads. Each has at most one request under way."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _flush(self, attempt: Attempt) -> None:
        try:
            attempt.try_flush()
        finally:
            with self._lock:
                self._busy.discard(attempt)
