"""The blobs of an agent in a thread."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Mapping, Protocol

from . import limits
from .attempt import Attempt
from .errors import MailroomError
from .jsontext import clean
from .rows import Row, fill

Content = bytes | bytearray | memoryview


@dataclass(frozen=True)
class Blob:
    """A blob: `size` is in bytes, `digest` the SHA-256 of the content in hexadecimal."""

    name: str
    size: int
    digest: str
    written_at: str = ""


class Blobs:
    """What the agent keeps in the thread beside its state: bytes under names, at most 16 MiB each and 64 MiB in all.

    Later attempts and later runs of the agent in the thread find them. A call commits a step of its own, and the
    message being written goes on; `s.step(blobs=…)` writes blobs together with a checkpoint.
    """

    def __init__(self, attempt: Attempt) -> None:
        self._attempt = attempt

    def put(self, name: str, content: Content) -> None:
        """Writes a blob, and replaces one of the same name."""
        self._write({name: content})

    def get(self, name: str) -> bytes | None:
        """The content of a blob; None if there is none of this name."""
        self._enter()
        try:
            found: bytes = self._attempt.get("blob", {"name": checked(name)})
            return found
        except MailroomError as err:
            if err.code == "not_found":  # not_found of the claim is LeaseLost
                return None
            raise

    def delete(self, name: str) -> None:
        """Deletes a blob, if there is one."""
        self._write({name: None})

    def upload(self, blobs: Mapping[str, Content | None]) -> list[Row]:
        """Stores contents, and returns the changes for the step that writes them. None deletes a blob."""
        self._enter()
        changes: list[Row] = [{"name": checked(name)} for name in blobs]
        for change, (name, content) in zip(changes, blobs.items()):
            if content is None:
                continue
            if not isinstance(content, (bytes, bytearray, memoryview)):
                raise MailroomError("invalid", f"blob {name!r} is {type(content).__name__}; give bytes")
            raw = bytes(content)
            if len(raw) > limits.BLOB:
                raise MailroomError("too_large", f"blob {name!r} has {len(raw):,} bytes, more than {limits.BLOB:,}")
            change["upload"] = self._attempt.post("uploads", raw)["upload"]
        return changes

    def _write(self, blobs: Mapping[str, Content | None]) -> None:
        self._attempt.commit({"record": True, "blobs": self.upload(blobs)})

    def _enter(self) -> None:
        self._attempt.enter()
        if self._attempt.contract < limits.CONTRACT_BLOBS:
            raise MailroomError("incompatible", "the server is too old for blobs; update the server")

    def list(self, prefix: str = "", after: str = "") -> list[Blob]:
        """The next blobs by name, at most 1,000: names that begin with `prefix` and come after the name `after`."""
        self._enter()
        page = self._attempt.get("blobs", {"prefix": clean(prefix) or None, "after": clean(after) or None})
        return [fill(Blob, row) for row in page["items"] or []]


class Away(Protocol):
    """Calls a function that blocks in another thread, and awaits its end."""

    async def __call__(self, fn: Any, *args: Any) -> Any: ...


class AsyncBlobs:
    """Blobs for `async def` handlers: the same names, awaited."""

    def __init__(self, blobs: Blobs, away: Away) -> None:
        self._blobs = blobs
        self._away = away

    async def put(self, name: str, content: Content) -> None:
        """See Blobs.put."""
        await self._away(self._blobs.put, name, content)

    async def get(self, name: str) -> bytes | None:
        """See Blobs.get."""
        found: bytes | None = await self._away(self._blobs.get, name)
        return found

    async def delete(self, name: str) -> None:
        """See Blobs.delete."""
        await self._away(self._blobs.delete, name)

    async def list(self, prefix: str = "", after: str = "") -> list[Blob]:
        """See Blobs.list."""
        found: list[Blob] = await self._away(self._blobs.list, prefix, after)
        return found


def checked(name: str) -> str:
    """Cleans the name of a blob. Raises MailroomError if it is no name."""
    if not isinstance(name, str) or not name or "\0" in name or len(clean(name).encode()) > limits.BLOB_NAME:
        raise MailroomError(
            "invalid", f"{name!r} is no name of a blob; use 1 to {limits.BLOB_NAME} bytes of text without NUL")
    return clean(name)
