"""Mailroom: a durable mailbox for AI agents.

`Mailroom` sends messages and follows runs. `Worker` serves agents: its handlers get a `Session`.
"""

from .answers import Approval, Child, Log
from .asession import AsyncSession
from .blobs import AsyncBlobs, Blob, Blobs
from .client import Mailroom
from .decorate import effect
from .effects import Happened, effect_key
from .errors import Aborted, Ended, Expired, Failure, LeaseLost, MailroomError, Overdue, Parked, Stopped, Unknown
from .rows import Delta, Entry, Event, Gap, Message, Thread, Ticket
from .run import Run
from .session import Session
from .worker import Worker

__all__ = [
    "Aborted", "Approval", "AsyncBlobs", "AsyncSession", "Blob", "Blobs", "Child", "Delta", "Ended", "Entry", "Event",
    "Expired", "Failure", "Gap",
    "Happened", "LeaseLost", "Log", "Mailroom", "MailroomError", "Message", "Overdue", "Parked", "Run", "Session",
    "Stopped", "Thread", "Ticket", "Unknown", "Worker", "effect", "effect_key",
]
