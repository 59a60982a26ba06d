"""One attempt of one run: its claim, its numbered writes, and why it ends.

All writes have one sequence of numbers, so threads of a handler can write at once. A write without an answer is
repeated as it was, with the same number, until it is answered or the claim is lost.
"""

from __future__ import annotations

import contextvars
import json
import logging
import os
import threading
import time
from typing import Any, Callable

from . import limits
from .client import at
from .errors import Aborted, Ended, LeaseLost, MailroomError, Parked, Stopped
from .jsontext import canonical, check, clean
from .logs import Log
from .rows import Row
from .text import Live, Text
from .transport import FAULTS, Query, Transport

# Whether this call of an async handler holds Parked back until the calls that run beside it have ended, because they
# may still ask something.
beside: contextvars.ContextVar[bool] = contextvars.ContextVar("mailroom calls beside each other", default=False)
# Set while a call of an async handler is under way: the stops that came with answers, for after the call.
kept_stops: contextvars.ContextVar[list[Callable[[], None]] | None] = contextvars.ContextVar("kept_stops", default=None)


class Attempt:
    """The writes of one claim.

    Two locks, acquired in this order: `sending` is held by a request that writes, so that no text arrives after the
    message that it belongs to; `turn` owns number, text, live, state and parked. A flush does not hold `turn` while it
    waits for an answer, so a handler that writes text does not wait for the server.
    """

    def __init__(self, transport: Transport, claim: Row, log: Log, refused: Callable[[MailroomError], None]) -> None:
        self.transport = transport
        self.claim = claim
        self.id: str = claim["claim"]
        self.run: Row = claim["run"]
        self.sending = threading.RLock()
        self.turn = threading.RLock()
        self.contract = 0  # of the server
        self.number = int(self.run["steps"]) + 1
        self.text = Text(f"{self.run['id']}.{self.run['attempt']}")
        self.live: dict[str, Live] = {}  # by channel and call, for the message being written
        self.parked: Row | None = None  # the wait, and the tickets to open
        self.told = False  # the handler has got Parked, or will get it before it goes on
        self.covers = 0  # seq of the last steered message that the handler has
        self.state: list[Any] = []  # at most one: the state that the next step writes
        self.waits_on = ""  # what the silent handler says it waits for; the next text or step clears it
        self.on_end: Callable[[], None] = lambda: None
        self.names = {"run": self.run["id"], "thread": self.run["thread"], "agent": self.run["agent"]}  # in the log
        self.budget_left: Row | None = (self.run.get("budget") or {}).get("left")  # as of the last step
        self._log = log
        self._refused = refused  # is called when the server refuses the worker
        self._why: Ended | None = None
        self._lost = threading.Event()
        self.begun = time.monotonic()
        limit = claim.get("deadline_ms")
        self.deadline = self.begun + limit / 1000 if limit else None  # time.monotonic(); a step can move it
        self.ended_at = 0.0  # time.monotonic() of the first call of end
        self.entered = False  # the handler has begun
        self.forced = False  # the worker settles it, because its handler does not return
        self.flush_at = 0.0  # time.monotonic() before which nothing is flushed
        self._unsure = False  # the server may have the step with the next number
        self._faults = 0  # flushes in a row that the server answered with a fault
        self._closed = False
        self._pid = os.getpid()

    @property
    def last(self) -> bool:
        """Whether the run fails for good if this claim is lost too.

        Such a run may be what crashes its workers, so a worker has only one at a time.
        """
        most, crashes = self.run.get("max_crashes"), int(self.run.get("crashes") or 0)
        most = 3 if most is None else int(most)
        return crashes > 0 and crashes >= most - 1 or int(self.claim.get("lost") or 0) >= limits.LOST - 1

    @property
    def why(self) -> Ended | None:
        """Why the attempt has to end; None if it goes on."""
        return self._why

    @property
    def lost(self) -> bool:
        """Whether its claim is lost."""
        return self._lost.is_set()

    def end(self, why: Ended) -> None:
        """Asks the handler to end. A lost claim overrides other reasons; otherwise the first reason stays."""
        if self._why is None or (isinstance(why, LeaseLost) and not isinstance(self._why, LeaseLost)):
            self._why = why
            self.ended_at = self.ended_at or time.monotonic()
            if isinstance(why, LeaseLost):
                self._lost.set()
            self.on_end()

    def enter(self) -> None:
        """Raises what ends the attempt, if something does. Every call of a handler begins with it."""
        if os.getpid() != self._pid:
            raise RuntimeError(
                f"this session belongs to process {self._pid}; a forked child must give its result to its parent")
        if self._closed:
            raise LeaseLost("the attempt has ended")
        if self._why is not None:
            raise self._why
        if self.parked is not None and (self.told or not beside.get()):
            raise self._park_error()

    def _park_error(self) -> Parked:
        return Parked("the run waits for " + ", ".join(self.parked["wait"]["names"] if self.parked else []))

    def commit(self, step: Row | None = None, *, effects: list[Row] | None = None, parts: list[Row] | None = None,
               always: bool = False) -> None:
        """Commits a step. It ends the message being written, unless `record` is set in the step.

        `parts` go with the message; `always` writes also after a stop.
        """
        with self.sending, self.turn:
            if not always or self._closed or isinstance(self._why, LeaseLost):
                self.enter()
            self.waits_on = ""
            body: Row = {"number": self.number}
            step = dict(step or {})
            if self.state and effects is None:
                step["state"] = self.state[0]
            if step:
                body["step"] = step
            if effects:
                body["effects"] = effects
            if self.covers:
                body["covers"] = self.covers
            if not step.get("record") and (message := self.text.body(parts)):
                body["message"] = message
            found = self._commit(body)
            self.number += 1
            self._extend(step, found)
            self.budget_left = found.get("budget_left", self.budget_left)
            self.orders(found)
            if "state" in step:
                self.state.clear()
            if "checkpoint" in step:
                self.claim["checkpoint"] = json.loads(canonical(step["checkpoint"]))  # as the next attempt reads it
            if "message" in body:
                self.text.begin()
                self.live.clear()

    def _commit(self, body: Row) -> Row:
        try:
            return dict(self.post("entries", body))
        except Ended:
            self._unsure = True
            raise
        except MailroomError as err:
            if "body.step.extend" not in err.places:
                raise
            del body["step"]["extend"]  # the server is older: the attempt ends at its first deadline
            return dict(self.post("entries", body))

    def _extend(self, step: Row, answer: Row) -> None:
        """Moves the deadline as a step has asked, and the server allows. It never takes time away."""
        if "extend" in step and self.deadline is not None and (left := answer.get("deadline_ms")):
            asked = int(step["extend"].removesuffix("ms"))
            self.deadline = max(self.deadline, time.monotonic() + min(asked, left) / 1000)

    def park(self, name: str, asks: list[Row]) -> None:
        """Raises Parked. The settle after the return of the handler opens the tickets and waits.

        Calls that run beside the one that parked first add theirs. Then the first decision starts the next attempt.
        """
        with self.sending, self.turn:
            self.enter()
            if self.parked is None:
                self.finish()
                self.parked = {"wait": {"names": []}, "tickets": []}
            names = self.parked["wait"]["names"]
            if name not in names:
                names.append(name)
                self.parked["tickets"] += asks
            if len(names) > 1:
                self.parked["wait"]["any"] = True
            self.told = self.told or not beside.get()
            raise self._park_error()

    def finish(self) -> None:
        """Commits the state that no step has written, also after a stop: the handler has returned."""
        if self.state:
            self.commit(always=True)

    def write(self, text: str, *, always: bool = False) -> None:
        """Adds text to the message being written; `always` also after a stop."""
        with self.turn:
            if not always or self._closed or isinstance(self._why, (LeaseLost, Aborted)):
                self.enter()
            self.waits_on = ""
            before = self.text.cut
            self.text.add(text)
            if self.text.cut and not before:
                self._log(logging.WARNING, "message cut", **self.names, bytes=limits.TEXT)
            much = self.text.unstored > limits.ENTRY
        if much:
            try:
                self.flush(store=True, once=False)
            except MailroomError as err:
                self.end(Aborted(err))
                self.enter()

    def show(self, text: str, **fields: str) -> None:
        """Shows text live in a channel."""
        for what, value in fields.items():
            if (n := len(value.encode())) > limits.LABEL:
                raise MailroomError(
                    "invalid", f"the {what} has {n:,} bytes, more than {limits.LABEL:,}; use a shorter one")
        with self.turn:
            self.enter()
            self.waits_on = ""
            self.live.setdefault(" ".join(fields.values()), Live(**fields)).add(text)

    @property
    def behind(self) -> bool:
        """Whether there is text to flush now."""
        if time.monotonic() < self.flush_at or not self.turn.acquire(blocking=False):
            return False  # a step is under way, and takes the text along
        try:
            return self._open and (self.text.behind or any(v.behind for v in self.live.values()))
        finally:
            self.turn.release()

    @property
    def _open(self) -> bool:
        return not self._closed and not self._lost.is_set() and self.parked is None

    def flush(self, *, store: bool, once: bool = True) -> None:
        """Sends text that was not sent. With `once` it tries once, and live text that does not arrive is dropped."""
        with self.sending:
            with self.turn:
                if not self._open:
                    return
                bodies: list[Row] = [b for b in (self.text.next(store), *(v.next() for v in self.live.values())) if b]
            for body in bodies:
                try:
                    found = self._once(body) if once else self.post("deltas", body)
                except MailroomError as err:
                    if "channel" in body and not err.passing and self._fate(err) is None:
                        self._log(logging.WARNING, "live text refused", **self.names, error=str(err))
                        continue  # it is only shown
                    raise
                if "channel" not in body:
                    with self.turn:
                        self.text.sent(body)
                self.orders(found)

    def _once(self, body: Row) -> Any:
        return self.transport.once("POST", self.path("deltas"), body, timeout=5)

    def try_flush(self) -> None:
        """Flushes once. It ends the attempt if the server refuses the text: its reply would be incomplete."""
        try:
            self.flush(store=False)
            self._faults = 0
        except Ended:
            pass  # the handler sees it with its next call
        except MailroomError as err:
            self.flush_at = time.monotonic() + max(1, err.retry_after)
            self._faults = self._faults + 1 if err.fault else 0
            if not err.passing and not 0 < self._faults < FAULTS:
                self.end(self._fate(err) or Aborted(err))

    def close(self) -> bool:
        """Ends the attempt for its handler: its calls raise LeaseLost from now on. False if it was closed before."""
        with self.sending, self.turn:
            before, self._closed = self._closed, True
            self.text.close()
            return not before

    def settle(self, body: Row, *, text: bool = True) -> None:
        """Ends a closed attempt at the server, with or without the text being written.

        Raises LeaseLost if another one has the claim, and MailroomError if the server refuses.
        """
        with self.sending, self.turn:
            body = {"number": self.number, **body}
            if text and (message := self.text.body()):
                body["message"] = message
            try:
                self._send("POST", "settle", body)
            except MailroomError as err:
                if err.code == "conflict" and self._unsure:  # the server has the step, and the message in it
                    self._unsure, self.number = False, self.number + 1
                    del body["number"]
                    body.pop("message", None)
                    return self.settle(body, text=False)
                if isinstance(fate := self._fate(err), LeaseLost):
                    self.end(fate)
                    raise fate from None
                raise

    def get(self, what: str, query: Query | None = None) -> Any:
        """Reads something under the claim."""
        return self._call("GET", what, None, query)

    def post(self, what: str, body: Row | bytes) -> Any:
        """Writes under the claim. Bytes are sent as they are."""
        return self._call("POST", what, body)

    def orders(self, answer: Row) -> None:
        """Takes the order to stop that an answer may have.

        An async handler gets it after its call has returned. Otherwise a step that spends a budget would cancel a
        handler that is done, and its answer would be lost.
        """
        if not answer.get("stop"):
            return
        stop, later = Stopped(str(answer["stop"])), kept_stops.get()
        if later is None:
            self.end(stop)
        else:
            later.append(lambda: self.end(stop))

    def path(self, what: str) -> str:
        """A path under the claim."""
        return at("v1", "claims", self.id, what)

    def _send(self, method: str, what: str, body: Row | bytes | None, query: Query | None = None) -> Any:
        most = limits.BLOB if isinstance(body, bytes) else limits.CLAIM_BODY
        return self.transport.call(method, self.path(what), body, query=query, most=most,
                                   goes_on=lambda seconds: not self._lost.wait(seconds))

    def _call(self, method: str, what: str, body: Row | bytes | None, query: Query | None = None) -> Any:
        try:
            return self._send(method, what, body, query)
        except MailroomError as err:
            if (fate := self._fate(err)) is None:
                raise
            self.end(fate)
            raise self._why or fate from None

    def _fate(self, err: MailroomError) -> Ended | None:
        """How an error ends the attempt; None if it goes on. Faults were repeated before."""
        if err.code == "unauthenticated":
            self._refused(err)
        if err.code == "not_found" and "query.name" in err.places and not self._lost.is_set():
            return None  # there is no such blob, and the claim goes on
        if self._lost.is_set() or err.code in ("lease_lost", "not_found", "unauthenticated"):
            return LeaseLost(err.message)
        return Aborted(err) if err.fault else None


def step_of(*, name: str | None, entries: list[Row], usage: Row | None, checkpoint: list[Any], progress: float | None,
            sends: list[Row], aside: bool, extend: float | None, record: bool,
            blobs: list[Row]) -> Row:
    """Builds a step, and checks sizes. `checkpoint` has at most one value, which may be None."""
    step: Row = {"name": None if name is None else clean(name), "usage": usage, "progress": progress}
    for entry in entries:
        check(f"the entry {entry.get('kind')!r}", entry.get("body"), limits.ENTRY)
    for value in checkpoint:
        check("the checkpoint", value, limits.CHECKPOINT)
        step["checkpoint"] = value
    if extend is not None:
        if not 0 < extend <= limits.EXTEND:
            raise MailroomError("invalid", f"extend is {extend}; use seconds, at most {limits.EXTEND:,}")
        step["extend"] = f"{max(1, round(extend * 1000))}ms"
    step.update(entries=entries or None, sends=sends or None, aside=aside or None, record=record or None,
                blobs=blobs or None)
    return {k: v for k, v in step.items() if v is not None}
