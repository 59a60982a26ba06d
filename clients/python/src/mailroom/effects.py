"""Calls that happen once: the states of an effect, without the call itself, which may be sync or async."""

from __future__ import annotations

import contextlib
import contextvars
import json
import threading
from dataclasses import dataclass
from typing import Any, Callable, Generic, Iterator, TypeVar

from . import limits
from .attempt import Attempt
from .errors import Failure, LeaseLost, MailroomError, Unknown, describe
from .jsontext import canonical, clean, digest, size
from .rows import Row, Ticket

T = TypeVar("T")
# The calls whose functions run here, the outermost first.
_calls: contextvars.ContextVar[tuple[Call, ...]] = contextvars.ContextVar("mailroom_calls", default=())


def effect_key() -> str:
    """The key of the effect that is being called, the same in every try: pass it on as an idempotency key."""
    for call in reversed(_calls.get()):
        if not call.memo:
            return call.key
    raise RuntimeError("no effect is called here; use effect_key in the function of an effect")


@dataclass(frozen=True)
class Happened(Generic[T]):
    """What a reconcile function returns if the call took place: its value. None says that it did not."""

    value: T


class Effects:
    """The effects of one run. One call of a name at a time; calls of several names run in parallel."""

    def __init__(self, attempt: Attempt, ticket: Callable[[str], Ticket | None]) -> None:
        self._attempt = attempt
        self._ticket = ticket
        self._known: dict[str, Row] | None = None
        self._locks: dict[str, threading.Lock] = {}

    def call(self, name: str, input: Any, idempotent: bool, can_reconcile: bool, memo: bool = False) -> Call:
        """Begins a call of an effect, or waits until another call of its name is done. End it with `Call.done`."""
        self._attempt.enter()
        name = clean(name)
        self.not_inside(name)
        with self._attempt.turn:
            lock = self._locks.setdefault(name, threading.Lock())
        while not lock.acquire(timeout=0.1):  # another thread calls it; end with the attempt
            self._attempt.enter()
        try:
            return Call(self, lock, name, input, idempotent, can_reconcile, memo)
        except BaseException:
            lock.release()
            raise

    def not_inside(self, name: str) -> None:
        """Refuses a call inside the function of the same name: it would wait for itself."""
        if any(c.name == clean(name) and c.effects is self and c.runs for c in _calls.get()):
            raise MailroomError(
                "conflict", f"effect {name!r} is called inside itself; give the inner call a name of its own")

    def find(self, name: str, fingerprint: str) -> Row:
        """The state of an effect. The server is asked once per attempt."""
        with self._attempt.turn:
            if self._known is None:
                first = self._attempt.run["steps"] == 0  # a run without steps has no effects
                items = [] if first else self._attempt.get("effects")["items"] or []
                self._known = {e["name"]: e for e in items}
            state = self._known.setdefault(name, {"name": name, "input": fingerprint, "last": "", "tries": 0})
            if state["input"] != fingerprint:
                raise MailroomError(
                    "conflict", f"effect {name!r} began with other input; give each call a name of its own")
            return state

    def record(self, state: Row, kind: str, **more: Any) -> None:
        """Records an effect, also when the attempt was asked to stop: what was called must be known."""
        body = {"name": state["name"], "input": state["input"], **more}
        self._attempt.commit({} if kind == "settled" and "error" not in more else {"record": True},
                             effects=[{"kind": "effect." + kind, "body": body}], always=True)
        state.update({"result": None, "error": None, "cut": False, **more})
        state["last"] = kind
        state["tries"] += kind == "intended"

    def ask(self, state: Row, input: Any) -> Ticket:
        """Returns the ticket that asks a person what became of an effect. Parks the run until it is decided."""
        name = f"effect:{state['name']}#{state['tries']}"
        found = self._ticket(name)
        if found is None or found.state == "open":
            shown = input if size(input) <= limits.ANSWER else {"digest": state["input"], "bytes": size(input)}
            prompt = (f"The outcome of {state['name']!r} is unknown. Approve to run it again, answer with its result, "
                      "or deny.")
            self._attempt.park(name, [] if found else [
                {"name": name, "kind": "approval", "answers": True, "prompt": prompt, "action": state["name"],
                 "arguments": shown}])
        assert found is not None
        return found


class Call:
    """One call of an effect. `settled` says that `value` is there; else call the function, or first reconcile."""

    def __init__(self, effects: Effects, lock: threading.Lock, name: str, input: Any, idempotent: bool,
                 can_reconcile: bool, memo: bool) -> None:
        self.effects, self._lock, self._input, self._idempotent = effects, lock, input, idempotent
        self._reconciles = can_reconcile
        self.name, self.memo = name, memo
        self.runs = True  # until done
        self.begun = False  # its intention is recorded
        self._state = effects.find(name, digest(input))
        self.key = f"{effects._attempt.run['id']}/{name}"
        self.settled = False
        self.value: Any = None
        last = self._state["last"].removeprefix("effect.")
        if last == "settled" and not self._state.get("error"):
            if self._state.get("cut"):
                raise Failure(
                    "permanent", f"effect {name!r} was called, but its value could not be kept; return a reference")
            self._set(self._state.get("result"))
        elif memo and last in ("intended", "unknown"):
            raise MailroomError("conflict", f"{name!r} is an effect whose outcome is not known, and no memo; "
                                "give the memo a name of its own")
        elif last == "intended":
            effects.record(self._state, "unknown")
            last = "unknown"
        self.must_reconcile = last == "unknown" and can_reconcile
        if last == "unknown" and not can_reconcile and not idempotent:
            self._decided(effects.ask(self._state, input))

    def reconciled(self, found: object) -> None:
        """Takes what the reconcile function returned."""
        if found is None:
            return
        if not isinstance(found, Happened):
            raise TypeError(f"reconcile returned {type(found).__name__}; return Happened(value), or None if it did not")
        self.finish(found.value)

    def record_begin(self) -> None:
        """Records that the call begins."""
        self.effects._attempt.enter()
        self.effects.record(self._state, "intended")
        self.begun = True

    def not_called(self) -> None:
        """Records that the attempt ended between the record of the intention and the call."""
        if self._state["last"] == "intended" and not self.effects._attempt.lost:
            self.effects.record(self._state, "settled", error="the attempt ended before the call")

    @contextlib.contextmanager
    def scope(self) -> Iterator[None]:
        """Makes this call the current one of the thread or task, as long as its function runs."""
        token = _calls.set((*_calls.get(), self))
        try:
            yield
        finally:
            _calls.reset(token)

    def finish(self, value: Any) -> None:
        """Records the value. If it cannot be kept, it records only that the call was made.

        So no attempt repeats the call. A memo is not recorded then: its call may be repeated.
        """
        try:
            n = size(value)
        except MailroomError as err:
            n, why = -1, err.message
        if n > limits.EFFECT:
            n, why = -1, f"it has {n:,} bytes of JSON, more than {limits.EFFECT:,}"
        if n < 0:
            if not self.memo:
                self.effects.record(self._state, "settled", cut=True)
            raise Failure(
                "permanent", f"effect {self._state['name']!r} was called, but its value could not be kept: {why}")
        self.effects.record(self._state, "settled", result=value)
        self._set(json.loads(canonical(value)))  # the same value as a later attempt gets

    def fail(self, err: BaseException) -> None:
        """Records that the call raised. After a stop, or an error that is no Exception, its outcome is unknown."""
        if isinstance(err, LeaseLost):
            return
        attempt = self.effects._attempt
        if isinstance(err, Unknown) or not isinstance(err, Exception) or attempt.why is not None:
            self.effects.record(self._state, "unknown")
            if isinstance(err, Unknown) and attempt.why is None and not self._idempotent and not self._reconciles:
                self._decided(self.effects.ask(self._state, self._input))
            return
        self.effects.record(self._state, "settled", error=clean(describe(err))[:4000])

    def done(self) -> None:
        """Lets the next call of this name begin."""
        self.runs = False
        self._lock.release()

    def _set(self, value: Any) -> None:
        self.settled, self.value = True, value

    def _decided(self, ticket: Ticket) -> None:
        if ticket.decision == "answer":
            self.effects.record(self._state, "settled", result=ticket.answer)
            self._set(ticket.answer)
        elif ticket.decision != "approve":
            name = self._state["name"]
            raise Failure("permanent", f"the outcome of effect {name!r} is unknown, and repeating it was denied")


def outside_effect() -> None:
    """Refuses to wait inside an effect: the handler would unwind from a call that has begun."""
    if any(c.begun for c in _calls.get()):
        raise RuntimeError("the function of an effect cannot wait for an answer; ask before the effect")

