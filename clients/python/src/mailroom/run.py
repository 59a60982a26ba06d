"""A run as the client sees it."""

from __future__ import annotations

import time
import urllib.parse
from typing import Any, Iterator

from .follow import follow
from .rows import Event, Row
from .transport import Transport

ENDS = ("completed", "failed", "cancelled")


class Run:
    """One piece of work of an agent. Its fields are those of the last answer; `refresh` reads them again."""

    def __init__(self, transport: Transport, data: Row, sent: Row | None = None) -> None:
        self._transport = transport
        self.data = data
        self.sent = sent or {}  # the answer to its send: message, disposition, superseded and so on

    def __repr__(self) -> str:
        return f"Run(id={self.id!r}, status={self.status!r})"

    @property
    def id(self) -> str:
        """The id of the run."""
        return str(self.data["id"])

    @property
    def thread(self) -> str:
        """The id of its thread."""
        return str(self.data["thread"])

    @property
    def status(self) -> str:
        """queued, running, waiting, completed, failed or cancelled."""
        return str(self.data["status"])

    @property
    def settled(self) -> bool:
        """Whether it has ended."""
        return self.status in ENDS

    @property
    def reply(self) -> str | None:
        """The text of its last complete message, None before there is one."""
        reply = self.data.get("reply")
        return None if reply is None else str(reply)

    @property
    def error(self) -> dict[str, Any] | None:
        """Why it failed for good: class and message."""
        return self.data.get("error")

    @property
    def path(self) -> str:
        """Its path in the API."""
        return "/v1/runs/" + urllib.parse.quote(self.id, safe="")

    def refresh(self) -> Run:
        """Reads its fields again, and returns it."""
        self.data = self._transport.call("GET", self.path)
        return self

    def follow(self, *, after: str = "0", timeout: float | None = None) -> Iterator[Event]:
        """Yields the entries of the run and its live text, until it has ended.

        It reconnects by itself. `after` is the `cursor` of the last event that a caller has. Raises TimeoutError
        after `timeout` seconds; the default is no timeout.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        yield from follow(self._transport, self.path + "/stream", after=after, until="settled", deadline=deadline)
        self.refresh()

    def wait(self, *, timeout: float | None = None, until_asked: bool = False) -> Run:
        """Waits until the run has ended, with `until_asked` also until it waits for something, and returns it.

        Raises TimeoutError after `timeout` seconds; the run goes on.
        """
        end = None if timeout is None else time.monotonic() + timeout
        while True:
            left = 60.0 if end is None else min(60.0, end - time.monotonic())
            if left <= 0:
                raise TimeoutError(f"run {self.id} is {self.status} after {timeout} s; it goes on")
            self.data = self._transport.call("GET", self.path + "/wait", query={"timeout": f"{int(left * 1000) + 1}ms"},
                                             timeout=left + 30)
            if self.settled or (until_asked and self.status == "waiting"):
                return self
            if self.status == "waiting":  # /wait would return at once; the stream stays open until the run has ended
                for _ in self.follow(timeout=None if end is None else max(0.0, end - time.monotonic())):
                    pass
