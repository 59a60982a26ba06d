"""The worker: serves agents from this process."""

from __future__ import annotations

import functools
import logging
import os
import signal
import socket
import threading
import time
from typing import Any, Awaitable, Callable, TypeVar, Union

from .asession import AsyncSession
from .attempt import Attempt
from .client import at
from .errors import LeaseLost, MailroomError, Stopped
from .logs import Log, to_stderr
from .perform import Performer
from .rows import Row
from .session import Session
from .transport import Transport

Handler = Union[Callable[[Session], Any], Callable[[AsyncSession], Awaitable[Any]]]
H = TypeVar("H", bound=Callable[..., Any])
CLAIM_WAIT = 55  # seconds that a claim waits for a due run
FLUSH_EVERY = 0.1  # seconds
CONTRACT = 1  # the worker contract that this package needs
GONE = ("lease_lost", "not_found", "gone")  # codes of a worker that the server no longer knows


class Worker:
    """Serves agents of one server. `url` and `token` default to MAILROOM_URL and MAILROOM_TOKEN (scope work).

        worker = Worker()

        @worker.agent("shout")
        def shout(s):
            s.write(s.text.upper())

        worker.run()

    Up to `slots` attempts run at once, each in a thread of its own; `async def` handlers run on one loop. A handler
    that was asked to stop, and a worker that drains, has `grace` seconds.

    The lease lasts 15 seconds, and a thread renews it every 5. A handler loses it only if it keeps that thread from
    running for so long: C code that holds the interpreter lock, or a process that is stopped. A Python loop does not:
    it gives the lock away every 5 ms (sys.setswitchinterval).
    """

    def __init__(self, url: str | None = None, token: str | None = None, *, slots: int = 4, grace: float = 10) -> None:
        if slots < 1 or slots > 1000:
            raise ValueError(f"slots is {slots}; use 1 to 1000")
        self.transport = Transport(url, token)
        self.slots, self.grace = slots, grace
        self.log = Log()
        self._handlers: dict[str, Handler] = {}
        self._held: dict[str, Attempt] = {}  # by claim; owned by _lock, like what follows
        self._busy = 0
        self._id = ""  # without a lease
        self._round = 0  # of the last claim that was sent
        self._lease = 15.0
        self._renewed = 0.0
        self._lock = threading.Lock()
        self._change = threading.Condition(self._lock)
        self._draining = threading.Event()
        self._ended = threading.Event()
        self._claiming: int | None = None  # the thread that waits for a claim
        self._error: BaseException | None = None

    def agent(self, name: str) -> Callable[[H], H]:
        """Registers the handler of an agent: a function, or an `async def`, that takes a session.

        Its result is None, or a str that is written at the end of the reply.
        """
        def register(handler: H) -> H:
            if name in self._handlers:
                raise ValueError(f"agent {name!r} has a handler already")
            self._handlers[name] = handler
            return handler
        return register

    def run(self) -> None:
        """Serves until SIGTERM or SIGINT, or stop(). Then it claims no more, and lets runs finish for the grace.

        Runs that have not finished are released, and go on at another worker. A second signal ends the process at
        once. Raises MailroomError if the server refuses the worker.
        """
        if not self._handlers:
            raise ValueError("the worker has no agent; register a handler with @worker.agent(NAME)")
        if self._draining.is_set():
            raise RuntimeError("this worker has ended; make another one")
        to_stderr()
        undo = self._signals()
        performer = Performer(self.slots, self.grace, self.log)
        try:
            self._register()
            renewals, watches, claims = threads = [
                threading.Thread(target=self._guard, args=(f, performer), name=f.__name__[1:], daemon=True)
                for f in (self._renewals, self._watches, self._claims)]
            for t in threads:
                t.start()
            while not self._draining.wait(1):  # in pieces, so that signals are handled everywhere
                pass
            self._drain(claims)
            self._ended.set()
            renewals.join(self._lease)
            watches.join(self._lease)
            self._leave()
        finally:
            self._ended.set()
            performer.close()
            self.transport.close()
            undo()
        if self._error is not None:
            raise self._error

    def stop(self) -> None:
        """Makes run() drain and return. Safe in signal handlers and in other threads."""
        self._draining.set()

    def _guard(self, fn: Callable[..., None], *args: Any) -> None:
        """Runs a thread of the worker. An error that nothing can retry ends the worker."""
        try:
            fn(*args)
        except BaseException as err:
            if isinstance(err, (KeyError, TypeError, AttributeError)):
                err = MailroomError(
                    "incompatible", f"the server's answer has another form than this package knows ({err!r}); upgrade it")
            if not (self._draining.is_set() and isinstance(err, MailroomError) and err.passing):
                self._error = self._error or err
            self._draining.set()
        finally:
            self.transport.close()

    def _signals(self) -> Callable[[], None]:
        if threading.current_thread() is not threading.main_thread():
            return lambda: None

        def on_signal(number: int, frame: Any) -> None:
            if self._draining.is_set():
                os._exit(128 + number)
            self._draining.set()

        before = {n: signal.signal(n, on_signal) for n in (signal.SIGTERM, signal.SIGINT)}

        def undo() -> None:
            for n, handler in before.items():
                signal.signal(n, handler)
        return undo

    def _goes_on(self, seconds: float) -> bool:
        return not self._draining.wait(seconds)

    def _register(self) -> None:
        body = {"agents": sorted(self._handlers), "max": 0, "host": socket.gethostname()[:255], "pid": os.getpid()}
        while True:
            asked = time.monotonic()  # the lease of the server is never shorter than one that begins here
            try:
                found = self.transport.once("POST", "/v1/claims", body)
                break
            except MailroomError as err:
                if not err.passing or not self._goes_on(max(err.retry_after, 1)):
                    raise
        if found.get("contract", 0) < CONTRACT:
            raise MailroomError("incompatible", f"the server at {self.transport.url} is older than this package; "
                                "upgrade the server, or install an older mailroom package")
        with self._lock:
            self._id, self._round = found["worker"], 0
            self._lease, self._renewed = found["lease_ms"] / 1000, asked
        self.log(logging.INFO, "worker registered", worker=self._id, agents=",".join(sorted(self._handlers)),
                 slots=self.slots)

    # Claims.

    def _claims(self, performer: Performer) -> None:
        self._claiming = threading.get_ident()
        while not self._draining.is_set():
            with self._change:
                while self._busy >= self.slots and not self._draining.is_set():
                    self._change.wait(1)
                free, alone = self.slots - self._busy, not any(_last(a.run) for a in self._held.values())
            if self._draining.is_set():
                return
            for attempt in self._claim(free, alone):
                self._start(performer, attempt)

    def _claim(self, free: int, alone: bool) -> list[Attempt]:
        """Claims due runs. The same round is asked for until it is answered, so that no claim is lost on the way.

        Registers again if the lease has ended.
        """
        if not self._id:
            self._register()
        id = self._id
        self._round += 1
        body = {"worker": id, "round": self._round, "max": free, "wait": f"{CLAIM_WAIT}s", "alone": alone}
        try:
            found = self.transport.call("POST", "/v1/claims", body, timeout=CLAIM_WAIT + 20,
                                        goes_on=lambda seconds: self._goes_on(seconds) and self._left(id) > 0)
        except MailroomError as err:
            if err.code not in GONE and not err.passing:
                raise
            if err.code in GONE or not self._draining.is_set():
                self._end_lease(id)
            return []
        made = [Attempt(self.transport, claim) for claim in found["claims"]]
        with self._lock:
            self._held.update({a.id: a for a in made})
            self._busy += len(made)
            ended = id != self._id
        for attempt in made if ended else []:
            attempt.end(LeaseLost("the lease of the worker ended before its claim was answered"))
        return made

    def _start(self, performer: Performer, attempt: Attempt) -> None:
        def done() -> None:
            with self._change:
                self._busy -= 1
                self._change.notify_all()

        performer.start(attempt, self._handlers[str(attempt.run["agent"])], lambda: self._settled(attempt), done)

    def _settled(self, attempt: Attempt) -> None:
        with self._change:
            self._held.pop(attempt.id, None)
            self._change.notify_all()

    # The lease.

    def _left(self, id: str) -> float:
        """The seconds that are left of the lease of this id, counted from the last request that was answered."""
        with self._lock:
            return self._renewed + self._lease - time.monotonic() if id == self._id else 0

    def _end_lease(self, id: str) -> None:
        """Ends the lease of this id, and the attempts under it. The next claim registers again."""
        with self._lock:
            if id != self._id:
                return
            self._id = ""
            held = list(self._held.values())
        for attempt in held:
            attempt.end(LeaseLost("the lease of the worker has ended"))

    def _renewals(self, _: Performer) -> None:
        pause = self._lease / 3
        while not self._ended.wait(pause):
            pause = self._renew()

    def _renew(self) -> float:
        """Renews the lease, and returns the seconds until the next time. The body {} releases nothing."""
        with self._lock:
            before, id, length = list(self._held), self._id, self._lease
        if not id:
            return length / 3  # the next claim registers again
        asked, left = time.monotonic(), self._left(id)
        try:
            if left <= 0:
                raise MailroomError("lease_lost", "no answer for longer than the lease")
            found = self.transport.once("POST", at("v1", "workers", id, "renew"), {}, timeout=min(length / 3, left))
        except MailroomError as err:
            if err.code not in GONE and not err.passing:
                raise
            self.log(logging.WARNING, "lease not renewed", worker=id, error=str(err))
            if err.passing:
                return min(length / 15, max(0.01, self._left(id)))
            self._end_lease(id)
            self.transport.hang_up(self._claiming)  # an open claim may wait for a minute; it registers again
            return length / 3
        with self._lock:
            if id != self._id:
                return length / 3
            self._renewed = asked
        kept = set(found.get("claims") or [])
        for claim in before:
            if claim not in kept and (lost := self._held.get(claim)):
                lost.end(LeaseLost("the claim was taken away"))
        for order in found["stop"] or []:
            if attempt := self._held.get(order["claim"]):
                attempt.end(Stopped(order["reason"]))
        return length / 3

    # Text, deadlines and stops.

    def _watches(self, performer: Performer) -> None:
        """Looks after running attempts: sends what they have written, once, and ends those that are late."""
        failing = False
        while not self._ended.wait(1 if failing else FLUSH_EVERY):
            with self._lock:
                held = list(self._held.values())
            failing = False
            for attempt in held:
                performer.watch(attempt, functools.partial(self._settled, attempt))
                if attempt.turn.acquire(blocking=False):  # its handler is writing: it comes with the next look
                    try:
                        attempt.flush(store=False)
                    except MailroomError as err:
                        failing = failing or err.passing
                        if err.code == "lease_lost":
                            attempt.end(LeaseLost(err.message))
                    finally:
                        attempt.turn.release()

    # The end.

    def _drain(self, claims: threading.Thread) -> None:
        self.log(logging.INFO, "worker draining", worker=self._id, running=self._busy, grace=f"{self.grace:g}s")
        end = time.monotonic() + self.grace
        with self._change:
            self._change.notify_all()
        while claims.is_alive() and time.monotonic() < end:
            self.transport.hang_up(self._claiming)
            claims.join(0.05)
        with self._change:
            while self._busy and (left := end - time.monotonic()) > 0:
                self._change.wait(min(left, 1))
            held = list(self._held.values())
        for attempt in held:
            attempt.end(Stopped("the worker drains"))
        end = time.monotonic() + self.grace + 2
        with self._change:
            while self._held and (left := end - time.monotonic()) > 0:
                self._change.wait(min(left, 1))

    def _leave(self) -> None:
        """Gives up the lease. First it releases claims whose answer never arrived, or they would count as lost."""
        if not self._id:
            return
        released = {"round": self._round, "held": []}
        try:
            self.transport.once("POST", at("v1", "workers", self._id, "renew"), released, timeout=5)
            self.transport.once("POST", at("v1", "workers", self._id, "leave"), {}, timeout=5)
        except MailroomError as err:
            self.log(logging.WARNING, "worker left without an answer", worker=self._id, error=str(err))
        else:
            self.log(logging.INFO, "worker left", worker=self._id)


def _last(run: Row) -> bool:
    """Whether the next lost claim of the run would be its last. It may be what crashes workers: one at a time."""
    most = run.get("max_crashes")
    most = 3 if most is None else int(most)
    return most > 0 and int(run.get("crashes") or 0) + 1 >= most
