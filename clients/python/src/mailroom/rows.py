"""What the server lists and streams. Unknown fields of a newer server are ignored; `data` has all of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

Row = dict[str, Any]


@dataclass(frozen=True)
class Message:
    """A message of a thread. `text` joins its text parts; `parts` has all of them."""

    id: str
    role: str
    sender: str
    text: str
    seq: int = 0
    thread: str = ""
    run: str = ""
    partial: bool = False
    created_at: str = ""
    data: Row = field(default_factory=dict, repr=False, compare=False)

    @property
    def parts(self) -> list[Row]:
        """The parts, as the server has them."""
        return list(self.data.get("parts") or [])


@dataclass(frozen=True)
class Ticket:
    """A question of a run. `digest` names the whole question; an approval returns it."""

    id: str
    run: str
    thread: str
    name: str
    kind: str
    state: str
    digest: str
    prompt: str | None = None
    action: str | None = None
    arguments: Any = None
    decision: str | None = None
    answer: Any = None
    reason: str | None = None
    decided_by: str | None = None
    expires_at: str | None = None
    data: Row = field(default_factory=dict, repr=False, compare=False)


@dataclass(frozen=True)
class Thread:
    """A thread: a conversation with its queue of runs."""

    id: str
    agent: str
    status: str
    owner: str = ""
    queued: int = 0
    last_seq: int = 0
    created_at: str = ""
    data: Row = field(default_factory=dict, repr=False, compare=False)


@dataclass(frozen=True)
class Entry:
    """A durable entry of a thread's log, such as `run.started`, `message` or `tool.finished`."""

    seq: int
    kind: str
    run: str
    thread: str
    attempt: int
    at: str
    body: Row
    cursor: str = ""


@dataclass(frozen=True)
class Delta:
    """Live text of a message from `offset` on, in bytes of UTF-8. Text can come again: compare the offset."""

    run: str
    message: str
    offset: int
    text: str
    channel: str = "text"
    attempt: int = 0
    cursor: str = ""
    kind: Literal["delta"] = "delta"


@dataclass(frozen=True)
class Gap:
    """Entries between `after` and `last` are no longer kept."""

    after: int
    last: int
    cursor: str = ""
    kind: Literal["gap"] = "gap"


Event = Entry | Delta | Gap


def fill(cls: Any, row: Row, **more: Any) -> Any:
    """Makes an object of `cls` from the fields of a row that it knows."""
    known = {k: row[k] for k in cls.__dataclass_fields__ if k in row}
    known.update(more)
    if cls is Message and not row.get("text"):  # a claim has each text once, in its part
        known["text"] = "\n".join(p.get("text", "") for p in row.get("parts") or [] if p.get("type") == "text")
    if "data" in cls.__dataclass_fields__:
        known["data"] = row
    return cls(**known)
