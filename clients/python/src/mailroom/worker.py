"""The worker: serves agents from this process."""

from __future__ import annotations

import functools
import logging
import os
import signal
import socket
import threading
import time
from typing import Any, Awaitable, Callable, Mapping, TypeVar, Union

from .asession import AsyncSession
from .attempt import Attempt
from .client import at
from .errors import LeaseLost, MailroomError, Stopped
from .flush import Flusher
from .logs import Log, to_stderr
from .perform import Performer
from .rows import Row
from .session import Session
from .transport import FAULTS, Transport, backoff

Handler = Union[Callable[[Session], Any], Callable[[AsyncSession], Awaitable[Any]]]
H = TypeVar("H", bound=Callable[..., Any])
CLAIM_WAIT = 55  # seconds that a claim waits for a due run
CONTRACT = 1  # the worker contract that this package needs
CONTRACT_WAITS = 3  # that of a server whose renewals take what attempts wait for
CONTRACT_ENTERED = 4  # that of a server that releases the claims which a worker that leaves has not entered
LOOK_EVERY = 0.1  # seconds
PAUSE = 5.0  # seconds at most between two tries
GONE = ("lease_lost", "not_found", "gone")  # codes of a worker that the server no longer knows


class Worker:
    """Serves agents of one server. `url` and `token` default to MAILROOM_URL and MAILROOM_TOKEN (scope work).

        worker = Worker()

        @worker.agent("shout")
        def shout(s):
            s.write(s.text.upper())

        worker.run()

    Up to `slots` attempts run at once, each in a thread of its own; `async def` handlers run on one loop. A handler
    that was asked to stop, and a worker that drains, has `grace` seconds. `retry` says how failures of its runs are
    retried, such as {"attempts": 3, "first": "10s", "factor": 2}; what it leaves out is as the server is configured.

    The lease lasts 15 seconds, and a thread renews it every 5. A handler loses it only if it keeps that thread from
    running for so long: C code that holds the interpreter lock, or a process that is stopped. A Python loop does not:
    it gives the lock away every 5 ms (sys.setswitchinterval).
    """

    def __init__(self, url: str | None = None, token: str | None = None, *, slots: int = 4, grace: float = 10,
                 retry: Mapping[str, Any] | None = None) -> None:
        if slots < 1 or slots > 1000:
            raise ValueError(f"slots is {slots}; use 1 to 1000")
        self.transport = Transport(url, token)
        self.slots, self.grace = slots, grace
        self.retry = None if retry is None else dict(retry)
        self.log = Log()
        self._handlers: dict[str, Handler] = {}
        # _lock guards changes of _held, _running and _unsettled.
        self._held: dict[str, Attempt] = {}  # by claim, until the server has its end
        self._running: set[Attempt] = set()  # their handlers have not returned
        self._unsettled: set[str] = set()  # claims that could not be settled; the next renewal gives them back
        self._id = ""  # of the worker; "" without a lease
        self._round = 0  # of the last claim that was sent
        self._answered = 0  # the last round whose attempts are held
        self._apart = False  # a claim is waiting that takes no run on its last attempt
        self._contract = 0  # of the server, with the last answer to a claim
        self._lease = 15.0
        self._renewed = 0.0
        self._lock = threading.Lock()
        self._change = threading.Condition(self._lock)
        self._draining = threading.Event()
        self._renew_now = threading.Event()
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
        performer, flusher = Performer(self.slots, self.grace, self.log), Flusher(self.slots)
        try:
            self._register(FAULTS)
            renewals = self._thread(self._renewals)
            watches = self._thread(self._watches, performer, flusher)
            claims = self._thread(self._claims, performer)
            while not self._draining.wait(1):  # in pieces, so that signals are handled everywhere
                pass
            self._drain(claims)
            self._ended.set()
            self._renew_now.set()
            renewals.join(self._lease)
            watches.join(self._lease)
            self._leave(claims.is_alive())
        finally:
            self._ended.set()
            for attempt in list(self._running):  # else their requests would be repeated, and keep the process
                attempt.end(LeaseLost("the worker has ended"))
            performer.close()
            flusher.close()
            self.transport.close()
            undo()
        if self._error is not None:
            raise self._error.with_traceback(None) from None  # it says what to do; where it was noticed does not matter

    def stop(self) -> None:
        """Makes run() drain and return. Safe in signal handlers and in other threads."""
        self._draining.set()

    def _thread(self, fn: Callable[..., None], *args: Any) -> threading.Thread:
        made = threading.Thread(target=self._guard, args=(fn, *args), name=fn.__name__[1:], daemon=True)
        made.start()
        return made

    def _guard(self, fn: Callable[..., None], *args: Any) -> None:
        """Runs a thread of the worker. An error that nothing can retry ends the worker."""
        try:
            fn(*args)
        except BaseException as err:
            if isinstance(err, (KeyError, TypeError, AttributeError)):
                err = MailroomError("incompatible", "the server's answer has another form than this package knows "
                                    f"({err!r}); upgrade the package")
            if not (self._draining.is_set() and isinstance(err, MailroomError) and err.passing):
                self._refused(err)
            self._draining.set()
        finally:
            self.transport.close()

    def _refused(self, err: BaseException) -> None:
        """Ends the worker. Without a valid token its attempts end too: they can write nothing more."""
        self._error = self._error or err
        self._draining.set()
        if isinstance(err, MailroomError) and err.code == "unauthenticated":
            with self._lock:
                held = list(self._held.values())
            for attempt in held:
                attempt.end(LeaseLost(err.message))

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

    def _policy(self) -> Row:
        return {} if self.retry is None else {"retry": self.retry}

    def _register(self, faults: int | None = None) -> None:
        """Registers the worker, and waits for a server that cannot be reached.

        Gives up after `faults` answers in a row that are faults of the server; None never gives up.
        """
        body = {"agents": sorted(self._handlers), "max": 0, "host": socket.gethostname()[:255], "pid": os.getpid(),
                **self._policy()}
        tries = failed = 0
        while True:
            asked = time.monotonic()  # the lease of the server is never shorter than one that begins here
            try:
                found = self.transport.once("POST", "/v1/claims", body)
                break
            except MailroomError as err:
                failed = failed + 1 if err.fault else 0
                if not (err.passing or err.fault) or failed == faults:
                    raise
                self.log(logging.WARNING, "worker not registered; retrying", error=str(err))
                tries += 1
                if not self._goes_on(backoff(tries + 2, err, PAUSE)):
                    raise
        if found.get("contract", 0) < CONTRACT:
            raise MailroomError("incompatible", f"the server at {self.transport.url} is older than this package; "
                                "update the server, or install an older mailroom package")
        with self._lock:
            self._id, self._round, self._answered = found["worker"], 0, 0
            self._unsettled.clear()  # the lease before has ended, and these claims with it
            self._lease, self._renewed, self._contract = found["lease_ms"] / 1000, asked, found["contract"]
        self.log(logging.INFO, "worker registered", worker=self._id, agents=",".join(sorted(self._handlers)),
                 slots=self.slots)

    # Claims.

    def _claims(self, performer: Performer) -> None:
        self._claiming = threading.get_ident()
        while not self._draining.is_set():
            with self._change:
                while len(self._running) >= self.slots and not self._draining.is_set():
                    self._change.wait(1)
            if self._draining.is_set():
                return
            for attempt in self._claim():
                self._start(performer, attempt)

    @property
    def _alone(self) -> bool:
        """Whether a run on its last attempt may start: no other one runs. The caller holds the lock."""
        return not any(a.last for a in self._running)

    def _claim(self) -> list[Attempt]:
        """Claims due runs. It repeats the request with the same round until it is answered, so that no claim is lost.

        Registers again if the lease has ended.
        """
        if not self._id:
            self._register()
        id, tries = self._id, 0
        self._round += 1
        while True:
            with self._lock:
                free, alone = self.slots - len(self._running), self._alone
                self._apart = not alone
            body = {"worker": id, "round": self._round, "max": free, "wait": f"{CLAIM_WAIT}s", "alone": alone,
                    "parts_only": True, **self._policy()}
            try:
                found = self.transport.once("POST", "/v1/claims", body, timeout=CLAIM_WAIT + 20)
                break
            except MailroomError as err:
                if err.code in GONE:
                    self._end_lease(id)
                    return []
                if not err.passing and not err.fault:
                    raise
                with self._lock:
                    again = self._alone and not alone  # then _watches may have hung up
                if err.fault:
                    self.log(logging.ERROR, "claim failed; retrying", worker=id, error=str(err))
                tries += 1
                if not self._goes_on(0 if again else backoff(tries, err, PAUSE)):
                    return []
                if self._left(id) <= 0:
                    self._end_lease(id)
                    return []
            finally:
                self._apart = False
        made = [Attempt(self.transport, claim, self.log, self._refused) for claim in found["claims"]]
        for attempt in made:
            attempt.contract = found.get("contract", 0)
        with self._lock:
            self._contract = found.get("contract", 0)
            self._held.update({a.id: a for a in made})
            self._running.update(made)
            ended = id != self._id
            if not ended:
                self._answered = self._round
        for attempt in made if ended else []:
            attempt.end(LeaseLost("the lease of the worker ended before its claim was answered"))
        return made

    def _start(self, performer: Performer, attempt: Attempt) -> None:
        def done() -> None:
            with self._change:
                self._running.discard(attempt)
                self._change.notify_all()

        performer.start(attempt, self._handlers[str(attempt.run["agent"])], functools.partial(self._settled, attempt),
                        done)

    def _settled(self, attempt: Attempt, known: bool) -> None:
        """Lets go of an attempt that has ended. If the server does not know that, the next renewal says it."""
        with self._change:
            if self._held.pop(attempt.id, None) and not known:
                self._unsettled.add(attempt.id)
                self._renew_now.set()
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

    def _renewals(self) -> None:
        pause = self._lease / 3
        while True:
            self._renew_now.wait(pause)
            self._renew_now.clear()
            if self._ended.is_set():
                return
            pause = self._renew()

    def _renew(self) -> float:
        """Renews the lease, and returns the seconds until the next time.

        An empty body releases nothing. If some claims could not be settled, the body names all others as held, and the
        server releases those that it does not name.
        """
        with self._lock:
            before, unsettled, id, length = list(self._held), set(self._unsettled), self._id, self._lease
            body: Row = {"round": self._answered, "held": before} if unsettled else {}
            if self._contract >= CONTRACT_WAITS:
                waits = {claim: a.waits_on for claim, a in self._held.items() if a.waits_on}
                body.update({"waits_on": waits} if waits else {})
        if not id:
            return length / 3  # the next claim registers again
        asked, left = time.monotonic(), self._left(id)
        try:
            if left <= 0:
                raise MailroomError("lease_lost", "no answer for longer than the lease")
            found = self._send_renewal(id, body, min(length / 3, left))
        except MailroomError as err:
            retries = err.passing or err.fault
            if err.code not in GONE and not retries:
                raise
            self.log(logging.WARNING, "lease not renewed", worker=id, error=str(err))
            if retries:
                return min(length / 15, max(0.01, self._left(id)))
            self._end_lease(id)
            self.transport.hang_up(self._claiming)  # an open claim may wait for a minute; it registers again
            return length / 3
        with self._lock:
            if id != self._id:
                return length / 3
            self._renewed = asked
            self._unsettled -= unsettled
            lost = set(found["lost"]) if unsettled else set(before) - set(found.get("claims") or [])
            taken = [self._held[claim] for claim in lost if claim in self._held]
            stops = [(self._held.get(order["claim"]), order["reason"]) for order in found["stop"] or []]
        for attempt in taken:
            attempt.end(LeaseLost("the claim was taken away"))
        for stopped, reason in stops:
            if stopped is not None:
                stopped.end(Stopped(reason))
        return length / 3

    def _send_renewal(self, id: str, body: Row, timeout: float) -> Row:
        path = at("v1", "workers", id, "renew")
        try:
            return dict(self.transport.once("POST", path, body, timeout=timeout))
        except MailroomError as err:
            if err.code != "invalid" or "waits_on" not in body:
                raise
            less = {k: v for k, v in body.items() if k != "waits_on"}  # an older server of a cluster
            return dict(self.transport.once("POST", path, less, timeout=timeout))

    # Text, deadlines and stops.

    def _watches(self, performer: Performer, flusher: Flusher) -> None:
        """Looks after running attempts: sends what they have written, and ends those that exceed their deadline."""
        while not self._ended.wait(LOOK_EVERY):
            with self._lock:
                held = list(self._held.values())
                again = self._apart and self._alone
            for attempt in held:
                performer.watch(attempt, functools.partial(self._settled, attempt))
                flusher.look(attempt)
            if again:
                self.transport.hang_up(self._claiming)  # the claim that waits takes no run on its last attempt

    # The end.

    def _drain(self, claims: threading.Thread) -> None:
        self.log(logging.INFO, "worker draining", worker=self._id, running=len(self._running), grace=f"{self.grace:g}s")
        end = time.monotonic() + self.grace
        with self._change:
            self._change.notify_all()
        while claims.is_alive() and time.monotonic() < end:
            self.transport.hang_up(self._claiming)
            claims.join(0.05)
        with self._change:
            while self._running and (left := end - time.monotonic()) > 0:
                self._change.wait(min(left, 1))
            held = list(self._held.values())
        for attempt in held:
            attempt.end(Stopped("the worker drains"))
        end = time.monotonic() + self.grace + 2
        with self._change:
            while self._held and (left := end - time.monotonic()) > 0:
                self._change.wait(min(left, 1))

    def _leave(self, claiming: bool) -> None:
        """Gives up the lease. The server releases claims whose answer never arrived; otherwise they would be lost.

        Before that, a renewal that holds nothing gives back the attempts that have not ended at the server. It gives
        back all claims if the server is too old to release them by itself, or if a thread still waits for a claim.
        """
        if not self._id or isinstance(self._error, MailroomError) and self._error.code == "unauthenticated":
            return
        with self._lock:
            entered, answered = sorted({*self._held, *self._unsettled}), self._answered
        # A thread that still waits for a claim may start a run after `entered` was read.
        newer = self._contract >= CONTRACT_ENTERED and not claiming
        try:
            if entered or not newer:
                released = {"round": answered if newer else self._round, "held": []}
                self.transport.once("POST", at("v1", "workers", self._id, "renew"), released, timeout=5)
            body = {"entered": entered} if newer else {}
            self.transport.once("POST", at("v1", "workers", self._id, "leave"), body, timeout=5)
        except MailroomError as err:
            self.log(logging.WARNING, "worker left without an answer", worker=self._id, error=str(err))
        else:
            self.log(logging.INFO, "worker left", worker=self._id)
