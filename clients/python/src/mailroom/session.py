"""What a handler sees of its attempt."""

from __future__ import annotations

import functools
import inspect
import itertools
import threading
from typing import Any, Callable, Mapping, ParamSpec, TypeVar, overload

from . import limits
from .answers import Approval, Child, Log, ask_row, send_row
from .attempt import Attempt, step_of
from .blobs import Blobs, Content
from .effects import Effects, Happened, outside_effect
from .errors import Expired, MailroomError
from .jsontext import canonical, check, clean
from .rows import Entry, Message, Row, Ticket, fill

P = ParamSpec("P")
T = TypeVar("T")
UNSET: Any = object()  # no value, not even None


class Session:
    """One attempt of a run, for a handler `def handle(s)`.

    A run can have several attempts: after a crash, an error or a wait, the handler runs again from the top. What an
    earlier attempt got under a name (a value of an effect or memo, an answer, the end of a child) is returned at once.
    Names are unique in the run. Text stays in the thread, and a handler that runs again writes it twice: write it
    after the wait, or skip it if `saved` shows that it was written.

    Threads of the handler may use it at once. Every call can raise Parked, Stopped or LeaseLost: let them pass. What
    several threads wait for is asked one after the other; an async handler asks together what one gather waits for.
    """

    def __init__(self, attempt: Attempt) -> None:
        self._attempt = attempt
        self._tickets: dict[str, Ticket] = {
            t["name"]: fill(Ticket, t) for t in attempt.claim.get("tickets") or [] if t["state"] != "void"}
        self.blobs = Blobs(attempt)
        self._effects = Effects(attempt, self._tickets.get)
        self._calls = itertools.count(1)
        self._mutex = threading.Lock()
        self._state: Any = attempt.claim.get("state")

    @property
    def input(self) -> list[Message]:
        """The messages that the run was started for."""
        return [fill(Message, m) for m in self._attempt.claim.get("messages") or []]

    @property
    def text(self) -> str:
        """The text of the input, its messages joined by newlines."""
        return "\n".join(m.text for m in self.input)

    @property
    def run(self) -> str:
        """The id of the run."""
        return str(self._attempt.run["id"])

    @property
    def thread(self) -> str:
        """The id of its thread."""
        return str(self._attempt.run["thread"])

    @property
    def agent(self) -> str:
        """The agent that the run is for."""
        return str(self._attempt.run["agent"])

    @property
    def attempt(self) -> int:
        """The number of this attempt, from 1. It grows with each claim, also after a wait."""
        return int(self._attempt.run["attempt"])

    @property
    def options(self) -> Any:
        """The options of the submit."""
        return self._attempt.claim.get("options")

    @property
    def budget_left(self) -> Row | None:
        """What was left of the run's budget at the last step, such as {"usd": 0.4, "turns": 12}; None: it has none."""
        left = self._attempt.budget_left
        return None if left is None else dict(left)

    @property
    def stopping(self) -> bool:
        """Whether the attempt has to end. A handler that computes for long looks at it now and then, and returns."""
        return self._attempt.why is not None

    @property
    def state(self) -> Any:
        """The agent's state in the thread, at most 16 KiB of JSON. Assign it: the next step, or the end, writes it."""
        return self._state

    @state.setter
    def state(self, value: Any) -> None:
        check("the state", value, limits.STATE)
        with self._attempt.turn:
            self._attempt.enter()
            self._attempt.state[:] = [value]
            self._state = value

    @property
    def saved(self) -> Any:
        """The run's last checkpoint, also one of this attempt; None at first."""
        return self._attempt.claim.get("checkpoint")

    def checkpoint(self, value: Any) -> None:
        """Commits a step with a checkpoint, at most 256 KiB of JSON. The next attempt finds it as `saved`."""
        self._step(checkpoint=[value])

    def write(self, text: str) -> None:
        """Streams text of the reply. Readers see it at once; it is stored about once a second, and with each step.

        A step ends the message, also one that records an effect, a memo, a tool or a send; what is written after it is
        another message. The reply of the run is the last one. A message is cut at 1 MiB.
        """
        self._attempt.write(text)

    def reasoning(self, text: str) -> None:
        """Shows what the agent thinks to those who follow the run now. It is not stored.

        Give `step` a part of type reasoning to store it.
        """
        self._attempt.show(text, channel="thinking")

    def step(self, name: str | None = None, *, entries: list[Row] | None = None, usage: Row | None = None,
             checkpoint: Any = UNSET, progress: float | None = None, parts: list[Row] | None = None,
             aside: bool = False, extend: float | None = None,
             blobs: Mapping[str, Content | None] | None = None) -> None:
        """Commits a step: ends the message being written, and stores it with the step and the state in one transaction.

        `entries` are {"kind": "x.…", "body": {…}}. `usage` has input_tokens, output_tokens, cost_usd and, if known,
        cache_read_tokens, cache_write_tokens, reasoning_tokens, model. `parts` of types reasoning, data and file go
        with the message. `checkpoint` is that of Session.checkpoint. `aside`: the message is no reply.
        `extend` is that of Session.extend. `blobs` are written with the step, by name; None deletes one.
        """
        if usage is not None:
            usage = {"input_tokens": 0, "output_tokens": 0, "cost_usd": 0, **usage}
        self._step(name=name, entries=entries, usage=usage, checkpoint=[] if checkpoint is UNSET else [checkpoint],
                   progress=progress, parts=parts, aside=aside, extend=extend,
                   blobs=self.blobs.upload(blobs) if blobs else None)

    def extend(self, seconds: float) -> None:
        """Asks for time: from now on the attempt may take that long, within the server's bound for an attempt.

        It never takes time away, and the message being written goes on.
        """
        self._step(extend=seconds, record=True)

    def waits_on(self, text: str) -> None:
        """Says what the handler waits for while it writes nothing, such as "cargo test", to those who look at the run.

        It is shown with the next renewal of the lease, and until the next text or step.
        """
        self._attempt.enter()
        self._attempt.waits_on = clean(text)[:limits.LABEL]

    def tool(self, name: str, arguments: Any = None, *, call: str | None = None) -> str:
        """Records that a tool is called, and returns the id of the call for tool_finished.

        It is a step: it ends the message being written, which then is no reply of the run. So does tool_finished.
        """
        with self._mutex:
            call = call or f"{self.attempt}.{next(self._calls)}"
        body = {"call": call, "name": clean(name), "arguments": arguments}
        self._step(entries=[{"kind": "tool.started", "body": body}], aside=True)
        return call

    def tool_arguments(self, call: str, name: str, text: str) -> None:
        """Shows the arguments of a tool call to those who follow the run now, while a model writes them.

        When they are complete, record the call with tool(…, call=call).
        """
        self._attempt.show(text, channel="tool", call=clean(call), name=clean(name))

    def tool_finished(self, call: str, output: Any = None, *, ok: bool = True, summary: str = "") -> None:
        """Records the output of a tool call."""
        body: Row = {"call": call, "ok": ok, "output": output, "summary": clean(summary)}
        body = {k: v for k, v in body.items() if v not in (None, "")}
        self._step(entries=[{"kind": "tool.finished", "body": body}], aside=True)

    @overload
    def effect(self, name: Callable[P, T], /) -> Callable[P, T]: ...

    @overload
    def effect(self, name: str, fn: Callable[[], T], /, *, input: Any = None, idempotent: bool = False,
               reconcile: Callable[[], Happened[T] | None] | None = None) -> T: ...

    def effect(self, name: Any, fn: Any = None, /, *, input: Any = None, idempotent: bool = False,
               reconcile: Any = None) -> Any:
        """Calls `fn` once in the run, and returns its value, now and in later attempts. The value is JSON.

        If the worker dies inside `fn`, its outcome is unknown. Then `idempotent` calls it again, `reconcile`
        is asked (it returns Happened(value) or None), or else a ticket asks a person. An exception is not a value: it
        is raised, and the next attempt calls `fn` again. `effect_key()` inside `fn` is an idempotency key.

        As a decorator of a function, `@s.effect`, the name is that of the function and the input its arguments.
        """
        if callable(name) and fn is None:
            function = name

            @functools.wraps(function)
            def decorated(*args: Any, **kwargs: Any) -> Any:
                bound = inspect.signature(function).bind(*args, **kwargs)
                bound.apply_defaults()
                given = dict(bound.arguments)
                return self._once(function.__name__, lambda: function(*args, **kwargs), given, False, None)

            return decorated
        return self._once(name, fn, input, idempotent, reconcile)

    def _once(self, name: str, fn: Callable[[], Any], input: Any, idempotent: bool, reconcile: Any) -> Any:
        call = self._effects.call(name, input, idempotent, reconcile is not None)
        try:
            if not call.settled and call.must_reconcile:
                with call.scope():
                    found = reconcile()
                call.reconciled(found)
            if not call.settled:
                call.record_begin()
                try:
                    with call.scope():
                        value = fn()
                except BaseException as err:
                    call.fail(err)
                    raise
                call.finish(value)
            return call.value
        finally:
            call.done()

    def memo(self, name: str, fn: Callable[[], T]) -> T:
        """Calls `fn`, and keeps its value for later attempts. A crash may call it again: for reads and model calls."""
        call = self._effects.call(name, None, True, False, memo=True)
        try:
            if not call.settled:
                with call.scope():
                    made = fn()
                call.finish(made)
            value: T = call.value
            return value
        finally:
            call.done()

    def approval(self, name: str, *, prompt: str, action: str = "", arguments: Any = None,
                 expires: float | None = None) -> Approval:
        """Asks a person to approve an action. In an `if` the result is true only if approved.

        After `expires` seconds without a decision it is false, and its `expired` is true.
        """
        ticket = self._wait(ask_row(name, "approval", prompt=prompt, action=action, arguments=arguments, after=expires))
        return Approval(ticket.decision == "approve", ticket.reason or "", ticket.decided_by or "",
                        ticket.state == "expired")

    def ask(self, name: str, prompt: str, *, expires: float | None = None) -> Any:
        """Asks a person, and returns the answer. Raises Expired after `expires` seconds."""
        return self._answer(self._wait(ask_row(name, "input", prompt=prompt, after=expires)))

    def event(self, name: str, *, expires: float | None = None) -> Any:
        """Waits until the ticket of this name is answered from outside, and returns the answer, or raises Expired."""
        return self._answer(self._wait(ask_row(name, "event", after=expires)))

    def sleep(self, name: str, seconds: float) -> None:
        """Waits without a worker. A sleep that a crash or a restart interrupts goes on."""
        self._wait(ask_row(name, "timer", after=seconds))

    def send(self, name: str, text: str, *, agent: str | None = None, thread: str | None = None, wake: bool = False,
             **more: Any) -> None:
        """Sends a message to another thread, once per name. `wake`: its run's end sends a message back.

        `more` is what a submit can have: mode, priority, not_before, deadline, budget, options, metadata, parts.
        `budget` is the part of the run's budget that the new run gets, such as {"usd": 0.5, "turns": 10}.
        """
        row = send_row(name, text, agent=agent, thread=thread, answer="wake" if wake else None, **more)
        self._step(sends=[row])

    def call(self, name: str, text: str, *, agent: str | None = None, thread: str | None = None, **more: Any) -> Child:
        """Sends a message to another thread, once per name, and waits for the end of its run. `more` is as for send."""
        outside_effect()
        found = self._tickets.get(name)
        if found is None:
            row = send_row(name, text, agent=agent, thread=thread, answer="wait", **more)
            self._step(sends=[row])
        if found is None or found.state == "open":
            self._attempt.park(name, [])
        assert found is not None
        return Child.of(found)

    def steered(self) -> list[Message]:
        """The messages that were steered into the run since the last call. The next step covers them."""
        with self._attempt.turn:
            self._attempt.enter()
            found = self._attempt.post("steered", {"after": self._attempt.covers})
            self._attempt.covers = max(self._attempt.covers, found["last"])
            return [fill(Message, m) for m in found["messages"] or []]

    def transcript(self, n: int = 100) -> list[Message]:
        """The last messages of the thread before the input, oldest first."""
        self._attempt.enter()
        return [fill(Message, m) for m in self._attempt.get("transcript", {"limit": n})["items"] or []]

    def log(self, kinds: list[str] | None = None, *, limit: int = 100, before: int | None = None) -> Log:
        """The last entries of the thread, oldest first: messages, and what runs of this agent wrote.

        For the page before another one, pass the other one's `older` as `before`; it is None at the beginning.
        """
        self._attempt.enter()
        page = self._attempt.get("log", {"kind": kinds, "limit": limit, "before": before})
        return Log([fill(Entry, e) for e in page["items"] or []], int(page["next"]) if page["next"] else None)

    def _step(self, *, name: str | None = None, entries: list[Row] | None = None,
              usage: Row | None = None, checkpoint: list[Any] | None = None, progress: float | None = None,
              sends: list[Row] | None = None, parts: list[Row] | None = None, aside: bool = False,
              extend: float | None = None, record: bool = False, blobs: list[Row] | None = None) -> None:
        step = step_of(name=name, entries=entries or [], usage=usage, checkpoint=checkpoint or [], progress=progress,
                       sends=sends or [], aside=aside, extend=extend, record=record, blobs=blobs or [])
        self._attempt.commit(step, parts=parts)

    def _wait(self, ask: Row) -> Ticket:
        """Returns the ticket of a question. Parks the run until it is decided or has expired."""
        outside_effect()
        name = ask["name"]
        found = self._tickets.get(name)
        if found is None or found.state == "open":
            self._attempt.park(name, [] if found else [ask])
        assert found is not None
        for what in ("kind", "prompt", "action", "arguments"):
            now, then = ask.get(what), getattr(found, what)
            if canonical(now or None) != canonical(then or None):
                raise MailroomError(
                    "conflict", f"ticket {name!r} was opened with another {what}; give each question its own name")
        return found

    def _answer(self, ticket: Ticket) -> Any:
        if ticket.state == "expired":
            raise Expired(f"{ticket.name!r} expired before it was answered")
        return ticket.answer
