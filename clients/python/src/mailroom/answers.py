"""What the waits of a session return, and the rows that they send."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Iterator

from . import limits
from .jsontext import bounded, check, clean
from .rows import Entry, Row, Ticket


@dataclass(frozen=True)
class Approval:
    """The decision about an action. It is true in an `if` only if the action was approved."""

    approved: bool
    reason: str
    by: str
    expired: bool

    def __bool__(self) -> bool:
        return self.approved


@dataclass(frozen=True)
class Child:
    """How the run of another thread ended: `status` is completed, failed or cancelled."""

    run: str
    thread: str
    status: str
    reply: str | None

    @classmethod
    def of(cls, ticket: Ticket) -> Child:
        """Reads the end of a run from the ticket that waited for it."""
        got = ticket.answer if isinstance(ticket.answer, dict) else {}
        return cls(got.get("run", ""), got.get("thread", ""), got.get("status", ticket.state), got.get("reply"))


@dataclass(frozen=True)
class Log:
    """A page of a thread's log, oldest first. `older` is the `before` of the page before it, None at the beginning."""

    entries: list[Entry]
    older: int | None

    def __iter__(self) -> Iterator[Entry]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)


def ask_row(name: str, kind: str, *, prompt: str = "", action: str = "", arguments: Any = None,
            after: float | None = None) -> Row:
    """Builds the row of a ticket to open. `after` is the seconds until it expires."""
    if arguments is not None:
        check("the arguments of the ticket", arguments, limits.ANSWER)
    row: Row = {"name": clean(name), "kind": kind, "prompt": clean(prompt), "action": clean(action),
                "arguments": arguments}
    if after is not None:
        row["after"] = f"{max(1, round(after * 1000))}ms"
    return {k: v for k, v in row.items() if v not in (None, "")}


def send_row(name: str, text: str, **more: Any) -> Row:
    """Builds the row of a message to another thread. `more` has further fields of a submit."""
    known = {"agent", "thread", "answer", "mode", "priority", "not_before", "deadline", "budget", "options", "metadata",
             "parts"}
    unknown = sorted(more.keys() - known)
    if unknown:
        raise TypeError(f"unknown {unknown[0]!r} of a message; use {', '.join(sorted(known - {'answer'}))}")
    text = bounded(text)
    row: Row = {"name": clean(name), "text": text, **more}
    return {k: v for k, v in row.items() if v is not None}
