"""The text of the message being written, and how much of it the server has. Owned by the lock of its attempt."""

from __future__ import annotations

import time

from . import limits
from .jsontext import clean
from .rows import Row

STORE_EVERY = 1.0  # seconds


class Text:
    """A message, cut at the limit of the server. Offsets are bytes of UTF-8. `begin` starts the next one."""

    def __init__(self, attempt: str) -> None:
        self._attempt = attempt  # RUN.ATTEMPT
        self._number = 0
        self._held = ""  # the first half of a pair of surrogates, whose second half may come with the next write
        self.begin()

    def begin(self) -> None:
        """Starts another message."""
        self._number += 1
        self._bytes = bytearray()
        self.cut = False  # nothing follows a cut
        self._live = 0
        self._stored = 0
        self._stored_at = time.monotonic()

    @property
    def message(self) -> str:
        """Its id. A request that names it is ignored if it arrives after the end of the message."""
        return f"{self._attempt}-{self._number}"

    def close(self) -> None:
        """Replaces half a pair of surrogates at the end."""
        if self._held:
            self._held = ""
            self._append("\ufffd".encode())

    @property
    def all(self) -> str:
        """The text so far."""
        return self._bytes.decode()

    def body(self, parts: list[Row] | None = None) -> Row | None:
        """The message as a step or a settle has it; None if it is empty."""
        if not self._bytes and not parts:
            return None
        return {"text": self.all, **({"truncated": True} if self.cut else {}), **({"parts": parts} if parts else {})}

    @property
    def unstored(self) -> int:
        """Bytes that a crash would lose."""
        return len(self._bytes) - self._stored

    def add(self, text: str) -> None:
        """Appends text."""
        if not isinstance(text, str):
            raise TypeError(f"write takes a str, not {type(text).__name__}")
        text = self._held + text
        self._held = ""
        if text and "\ud800" <= text[-1] <= "\udbff":
            self._held, text = text[-1], text[:-1]
        self._append(clean(text).encode())

    def _append(self, raw: bytes) -> None:
        room = 0 if self.cut else limits.TEXT - len(self._bytes)
        if len(raw) > room:
            self.cut = True
            while room > 0 and raw[room] & 0xC0 == 0x80:
                room -= 1  # not inside a character
        self._bytes += raw[:room]

    @property
    def behind(self) -> bool:
        """Whether there is something to send now."""
        begin = self._stored if self._due else max(self._live, self._stored)
        return begin < len(self._bytes)

    @property
    def _due(self) -> bool:
        return self.unstored > 0 and time.monotonic() - self._stored_at >= STORE_EVERY

    def next(self, store: bool) -> Row | None:
        """The request that sends what was not sent: stored about once a second, else live."""
        store = store or self._due
        begin = self._stored if store else max(self._live, self._stored)
        if begin == len(self._bytes):
            return None
        body: Row = {"message": self.message, "offset": begin, "text": self._bytes[begin:].decode()}
        if not store:
            body["live"] = True
            self._live = len(self._bytes)  # live text is sent once; the store sends what is lost
        return body

    def sent(self, body: Row) -> None:
        """Records that the server has taken a request."""
        end = body["offset"] + len(body["text"].encode())
        self._live = max(self._live, end)
        if not body.get("live"):
            self._stored, self._stored_at = end, time.monotonic()


class Live:
    """Text that is shown live and never stored: reasoning, or the arguments of a tool call as a model writes them."""

    def __init__(self, **fields: str) -> None:
        self._fields = fields
        self._offset = 0
        self._pending = ""

    def add(self, text: str) -> None:
        """Appends text, up to the size of a message."""
        text = clean(text)
        if self._offset + len((self._pending + text).encode()) <= limits.TEXT:
            self._pending += text

    @property
    def behind(self) -> bool:
        """Whether there is something to send."""
        return self._pending != ""

    def next(self) -> Row | None:
        """The request that sends what was not sent. It is sent once."""
        if not self._pending:
            return None
        body: Row = {"offset": self._offset, "text": self._pending, **self._fields}
        self._offset += len(self._pending.encode())
        self._pending = ""
        return body
