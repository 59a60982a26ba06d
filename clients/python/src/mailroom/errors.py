"""The errors of this package.

Errors of the server are MailroomError. What ends an attempt from outside (Parked, Stopped, LeaseLost) derives from
BaseException, so that the `except Exception` of a handler does not swallow it.
"""

from __future__ import annotations

from typing import Literal

FailureClass = Literal["transient", "unavailable", "permanent"]


class MailroomError(Exception):
    """The server refused a request, or no answer came (code `unavailable`).

    `code` is one of the server's codes, such as `unauthenticated`, `not_found`, `conflict`, `too_large`, `unserved` (no
    worker serves the agent), or `incompatible` if the answer is not one that this version understands. `retry_after`
    is in seconds; 0 for none.
    """

    def __init__(self, code: str, message: str, *, retry_after: float = 0, status: int = 0,
                 places: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.places = places  # of what is invalid in the request, such as body.priority
        self.code = code
        self.message = message
        self.retry_after = retry_after
        self.status = status

    def __str__(self) -> str:
        return f"{self.message} ({self.code})"

    @property
    def passing(self) -> bool:
        """Whether a later try can succeed."""
        return self.code in ("unavailable", "rate_limited")

    @property
    def fault(self) -> bool:
        """Whether the server failed to answer because of an error of its own. It may answer a later try, or none."""
        return self.code == "internal"


class Failure(Exception):
    """Raised by a handler to end its attempt with a class of its choice.

    `transient` is retried and counts as a failure, `unavailable` is retried for a day, `permanent` is not retried.
    Of other exceptions, a MailroomError with the code `invalid`, `too_large` or `conflict` is permanent, because the
    next attempt would ask for the same, and the rest is transient, also `unserved`. The server retries no earlier than after `retry_after` seconds.
    """

    def __init__(self, cls: FailureClass, message: str, *, retry_after: float = 0) -> None:
        if cls not in ("transient", "unavailable", "permanent"):
            raise ValueError(f"unknown class {cls!r} of a failure; use transient, unavailable or permanent")
        super().__init__(message)
        self.cls: FailureClass = cls
        self.retry_after = retry_after


class Unknown(Exception):
    """Raised by the function of an effect whose outcome it cannot know, such as after a timeout."""


class Expired(Exception):
    """A question or an event expired before it was answered."""


class Ended(BaseException):
    """Base of what ends an attempt from outside. Let it pass: clean up in `finally`."""


class Parked(Ended):
    """The run waits. Its handler runs again from the top when the wait is over."""


class Stopped(Ended):
    """The run was asked to stop, the worker drains, or the attempt exceeded its deadline."""


class Overdue(Stopped):
    """The attempt took longer than its deadline allows. It fails, and the server retries the run."""


class Aborted(Ended):
    """The attempt cannot go on, and fails: the server refuses its text, or answers with faults only. See `error`."""

    def __init__(self, error: MailroomError) -> None:
        super().__init__(str(error))
        self.error = error


class LeaseLost(Ended):
    """The claim is gone. Another worker may have the run, and the server accepts no write of this attempt."""


def describe(err: BaseException) -> str:
    """The type of an exception, and its text unless reading it raises."""
    try:
        return f"{type(err).__name__}: {err}"
    except Exception:
        return f"{type(err).__name__}, whose text cannot be read"
