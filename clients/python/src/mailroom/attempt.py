"""One attempt of one run: its claim, its numbered writes, and why it ends.

All writes go through one lock and one sequence of numbers, so threads of a handler can write at once. A write without
an answer is repeated as it was, with the same number, until it is answered or the claim is lost.
"""

from __future__ import annotations

import os
import threading
import time
from typing import Any, Callable

from . import limits
from .client import at
from .errors import Ended, LeaseLost, MailroomError, Parked, Stopped
from .jsontext import check, clean
from .rows import Row
from .text import Live, Text
from .transport import Query, Transport


class Attempt:
    """The writes of one claim. Its lock `turn` owns number, text, state and parked."""

    def __init__(self, transport: Transport, claim: Row) -> None:
        self.transport = transport
        self.claim = claim
        self.id: str = claim["claim"]
        self.run: Row = claim["run"]
        self.turn = threading.RLock()
        self.number = int(self.run["steps"]) + 1
        self.text = Text(f"{self.run['id']}.{self.run['attempt']}")
        self.live: dict[str, Live] = {}  # by channel and call, for the message being written
        self.parked: Row | None = None
        self.covers = 0  # the last steered message that the handler has
        self.covered = 0  # the one that a step has covered
        self.state: list[Any] = []  # at most one: the state that the next step writes
        self.on_end: Callable[[], None] = lambda: None
        self._why: Ended | None = None
        self._lost = threading.Event()
        self.begun = time.monotonic()
        self.ended_at = 0.0  # time.monotonic() of the first call of end
        self.entered = False  # the handler has begun
        self.forced = False  # the worker settles it, because its handler does not return
        self._closed = False
        self._pid = os.getpid()

    @property
    def why(self) -> Ended | None:
        """Why the attempt has to end; None if it goes on."""
        return self._why

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
        if self.parked is not None:
            raise Parked("the run waits for " + ", ".join(self.parked["names"]))

    def commit(self, step: Row | None = None, *, message: bool = False, effects: list[Row] | None = None,
               parts: list[Row] | None = None, always: bool = False) -> None:
        """Commits a step. `message` ends the message being written, with `parts`; `always` writes also after a stop."""
        with self.turn:
            if not always or self._closed or isinstance(self._why, LeaseLost):
                self.enter()
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
            if message and (self.text.all or parts):
                body["message"] = {"text": self.text.all, **({"parts": parts} if parts else {})}
            self.orders(self.post("entries", body))
            self.number += 1
            self.covered = self.covers
            if "state" in step:
                self.state.clear()
            if "message" in body:
                self.text.begin()
                self.live.clear()

    def park(self, names: list[str], asks: list[Row], any_of: bool = False) -> None:
        """Raises Parked. The settle after the return of the handler opens the tickets and waits."""
        with self.turn:
            self.enter()
            self.finish()
            self.parked = {"names": names, "asks": asks, "any": any_of}
            self.enter()

    def finish(self) -> None:
        """Commits what no step has written: the state, and that steered messages were read."""
        if self.state or self.covers != self.covered:
            self.commit()

    def write(self, text: str) -> None:
        """Adds text to the message being written. A message that is full is committed, and another one begins."""
        with self.turn:
            self.enter()
            for full in self.text.add(text):
                if full:
                    self.commit(message=True)
            if self.text.unstored > limits.ENTRY:
                self.flush(store=True, once=False)

    def show(self, text: str, **fields: str) -> None:
        """Shows text live in a channel."""
        with self.turn:
            self.enter()
            self.live.setdefault(" ".join(fields.values()), Live(**fields)).add(text)

    def flush(self, *, store: bool, once: bool = True) -> None:
        """Sends text that was not sent. With `once` it tries once, and drops what only readers at hand would see."""
        with self.turn:
            if self._closed or self._lost.is_set() or self.parked is not None:
                return
            bodies: list[Row] = [b for b in (self.text.next(store), *(v.next() for v in self.live.values())) if b]
            for body in bodies:
                if once:
                    found = self.transport.once("POST", self.path("deltas"), body, timeout=5)
                else:
                    found = self.post("deltas", body)
                if "channel" not in body:
                    self.text.sent(body)
                self.orders(found)

    def settle(self, outcome: str, **more: Any) -> Row | None:
        """Ends the attempt at the server. What is written after it raises LeaseLost."""
        with self.turn:
            if self._closed:
                return None
            self.text.close()
            body: Row = {"number": self.number, "outcome": outcome, **more}
            if self.text.all:
                body["text"] = self.text.all
            try:
                found: Row = self.post("settle", body)
                return found
            finally:
                self._closed = True

    def reopen(self) -> None:
        """Lets an attempt be settled again after the server has refused its settle."""
        self._closed = False

    def get(self, what: str, query: Query | None = None) -> Any:
        """Reads something under the claim."""
        return self._call("GET", self.path(what), None, query)

    def post(self, what: str, body: Row) -> Any:
        """Writes under the claim."""
        return self._call("POST", self.path(what), body, None)

    def orders(self, answer: Row) -> None:
        """Takes the order to stop that an answer may have."""
        if answer.get("stop"):
            self.end(Stopped(str(answer["stop"])))

    def path(self, what: str) -> str:
        """A path under the claim."""
        return at("v1", "claims", self.id, what)

    def _call(self, method: str, path: str, body: Row | None, query: Query | None) -> Any:
        try:
            return self.transport.call(method, path, body, query=query, most=limits.CLAIM_BODY,
                                       goes_on=lambda seconds: not self._lost.wait(seconds))
        except MailroomError as err:
            if self._lost.is_set() or err.code == "lease_lost":
                self.end(LeaseLost(err.message))
                assert self._why is not None
                raise self._why from None
            raise


def step_of(*, name: str | None, entries: list[Row], usage: Row | None, checkpoint: list[Any], progress: float | None,
            sends: list[Row], aside: bool) -> Row:
    """Builds a step, and checks sizes. `checkpoint` has at most one value, which may be None."""
    step: Row = {"name": None if name is None else clean(name), "usage": usage, "progress": progress}
    for entry in entries:
        check(f"the entry {entry.get('kind')!r}", entry.get("body"), limits.ENTRY)
    for value in checkpoint:
        check("the checkpoint", value, limits.CHECKPOINT)
        step["checkpoint"] = value
    step.update(entries=entries or None, sends=sends or None, aside=aside or None)
    return {k: v for k, v in step.items() if v is not None}
