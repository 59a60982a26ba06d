"""Runs the handler of one attempt, and settles it whatever the handler does."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import logging
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Callable

from . import limits
from .asession import AsyncSession
from .attempt import Attempt
from .decorate import current
from .errors import Aborted, Ended, Failure, LeaseLost, MailroomError, Overdue, Stopped, describe
from .jsontext import clean
from .logs import Log
from .session import Session


class Performer:
    """Owns the threads of attempts, and the loop of async handlers, which starts with the first of them."""

    def __init__(self, slots: int, grace: float, log: Log) -> None:
        self._slots, self._grace, self._log = slots, grace, log
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closed = False
        self._lock = threading.Lock()

    def start(self, attempt: Attempt, handler: Callable[..., Any], settled: Callable[[bool], None],
              done: Callable[[], None]) -> None:
        """Starts an attempt.

        `settled` is called when it has ended, with whether the server knows that; `done` when the handler has returned.
        """
        threading.Thread(target=self._perform, args=(attempt, handler, settled, done), name=f"run {attempt.id}",
                         daemon=True).start()

    def close(self) -> None:
        """Stops the loop. Handlers that still run are left to the end of the process."""
        self._closed = True
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._loop.stop)

    def _perform(self, attempt: Attempt, handler: Callable[..., Any], settled: Callable[[bool], None],
                 done: Callable[[], None]) -> None:
        pid, at = os.getpid(), time.monotonic()
        self._log(logging.INFO, "attempt started", **attempt.names, attempt=attempt.run["attempt"])
        mine = known = False
        try:
            raised: BaseException | None = None
            try:
                self._enter(attempt, handler)
            except BaseException as err:
                raised = err
            if os.getpid() != pid:  # the child of a fork in the handler
                os._exit(1)
            mine = attempt.close()
            if mine:  # else _force has closed and settled it
                body = _outcome(attempt, raised)
                known = self._settle(attempt, body)
                outcome = "lost" if attempt.lost else body["outcome"]
                why = {"error": str(attempt.why)} if isinstance(attempt.why, Aborted) else {}
                self._log(logging.WARNING if outcome == "fail" else logging.INFO, "attempt ended", **attempt.names,
                          outcome=outcome, ms=round((time.monotonic() - at) * 1000), **why,
                          exc=raised if _unexpected(outcome, raised) else None)
        finally:
            attempt.transport.close()
            if mine:
                settled(known)
            done()

    def _enter(self, attempt: Attempt, handler: Callable[..., Any]) -> None:
        """Calls the handler, and writes what it returns."""
        session = Session(attempt)
        result = self._call(attempt, session, handler)
        if attempt.parked is not None:
            return
        if result is not None and not isinstance(result, str):
            raise Failure("permanent", f"the handler returned {type(result).__name__}; "
                          "return a str, which is written, or None")
        if result:
            attempt.write(result, always=True)  # a handler that has returned is done, also if it was asked to stop
        attempt.finish()

    def _call(self, attempt: Attempt, session: Session, handler: Callable[..., Any]) -> Any:
        current.set(session)  # of this thread, which ends with the attempt
        attempt.enter()
        attempt.entered = True
        if not inspect.iscoroutinefunction(handler):
            return handler(session)
        loop, ended, made, pid = self._running_loop(), threading.Event(), [], os.getpid()

        def begin() -> None:
            seen = AsyncSession(session)
            current.set(seen)

            async def call() -> Any:
                try:
                    return await handler(seen)  # a handler with other parameters raises here, within the task
                finally:
                    if os.getpid() != pid:  # the child of a fork has the loop, and no other thread
                        os._exit(1)
            task = loop.create_task(call())
            task.add_done_callback(lambda _: ended.set())
            made.append(task)

        def cancel() -> None:
            loop.call_soon_threadsafe(lambda: made[0].cancel())

        loop.call_soon_threadsafe(begin, context=contextvars.copy_context())
        attempt.on_end = cancel
        if attempt.why is not None:
            cancel()
        ended.wait()  # for the task itself: a cancelled one may clean up, and record an effect
        return made[0].result()

    def _settle(self, attempt: Attempt, body: dict[str, Any]) -> bool:
        """Settles a closed attempt. Returns whether the server has its end, or took the claim away before.

        If the server refuses the settle, it becomes a failure, which is counted and visible. If the server refuses
        that too, the failure is sent without the text, which may be the cause.
        """
        text, given_up = True, False
        while not attempt.lost and not given_up:
            try:
                attempt.settle(body, text=text)
                return True
            except LeaseLost:
                break
            except Exception as err:
                self._log(logging.ERROR, "settle refused", **attempt.names, outcome=body["outcome"], error=str(err))
                if body["outcome"] == "fail":
                    text, given_up = False, not text
                    continue
                message = clean(f"settle refused: {err}")[:limits.MESSAGE // 4]
                body.clear()
                body.update(outcome="fail", failure={"class": "transient", "message": message})
        if given_up:
            self._log(logging.ERROR, "attempt could not be settled; its claim is given back", **attempt.names)
        return not given_up

    def watch(self, attempt: Attempt, settled: Callable[[bool], None]) -> None:
        """Ends an attempt at its deadline, and settles one whose handler does not return within the grace.

        A thread of Python cannot be killed: the handler keeps its slot until it returns, and can write nothing.
        """
        deadline, now = attempt.deadline, time.monotonic()
        if deadline is not None and now >= deadline:
            attempt.end(Overdue(f"the attempt took longer than {round((deadline - attempt.begun) * 1000)} ms"))
        if attempt.why is not None and not attempt.forced and now - attempt.ended_at >= self._grace:
            attempt.forced = True
            threading.Thread(target=self._force, args=(attempt, settled), daemon=True).start()

    def _force(self, attempt: Attempt, settled: Callable[[bool], None]) -> None:
        self._log(logging.WARNING, "handler does not stop", **attempt.names, why=str(attempt.why),
                  grace=f"{self._grace:g}s")
        if not attempt.close():
            return  # its handler has returned after all, and settles it
        known = False
        try:
            if isinstance(attempt.why, Stopped) and not isinstance(attempt.why, Overdue):
                body: dict[str, Any] = {"outcome": "release", "entered": True, "forced": True}
            else:
                body = {"outcome": "fail", "failure": _failure(attempt.why), "forced": True}
            known = self._settle(attempt, body)
        finally:
            attempt.transport.close()
            settled(known)

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                # A handler may have several calls under way, such as effects of parallel tools.
                self._loop.set_default_executor(ThreadPoolExecutor(4 * self._slots + 4, "mailroom async"))
                threading.Thread(target=self._run_loop, args=(self._loop,), name="mailroom loop", daemon=True).start()
            return self._loop

    def _run_loop(self, loop: asyncio.AbstractEventLoop) -> None:
        """Runs the loop until close. A task that exits ends its attempt, and would end the loop of all others too.

        A loop with a handler that still runs is left open: it may be in a call.
        """
        while not self._closed:
            try:
                loop.run_forever()
            except (SystemExit, KeyboardInterrupt):
                pass  # asyncio has recorded it in the task
        if not asyncio.all_tasks(loop):
            loop.close()


def _outcome(attempt: Attempt, raised: BaseException | None) -> dict[str, Any]:
    """The settle of an attempt whose handler has returned. A run whose handler swallowed Parked waits all the same."""
    why: BaseException | None = attempt.why
    if isinstance(why, Aborted):
        return {"outcome": "fail", "failure": _failure(why)}
    if attempt.parked is not None:
        return {"outcome": "wait", **attempt.parked}
    if raised is None:
        return {"outcome": "complete"}
    if isinstance(why, Stopped) and isinstance(raised, Failure) and raised.cls == "permanent":
        return {"outcome": "fail", "failure": _failure(raised)}  # a raised budget would change nothing
    why = why or raised
    if isinstance(why, Stopped) and not isinstance(why, Overdue):
        return {"outcome": "release", "entered": attempt.entered}
    return {"outcome": "fail", "failure": _failure(why)}


def _failure(err: BaseException | None) -> dict[str, Any]:
    """The failure to settle with after an exception. Its message has at most limits.MESSAGE bytes."""
    cls, after = ("transient", 0.0)
    if isinstance(err, Aborted):
        err = err.error
    if not isinstance(err, (Ended, Failure, MailroomError)):
        message = describe(err) if err else ""
    else:
        message = str(err)
    if isinstance(err, Failure):
        cls, after = err.cls, err.retry_after
    elif isinstance(err, MailroomError) and err.code in ("too_large", "invalid", "conflict"):
        cls = "permanent"  # the next attempt would send the same
    elif isinstance(err, SystemExit):
        message = f"the handler called sys.exit({err.code!r}); raise Failure, or return"
    raw = clean(message or type(err).__name__).encode()[:limits.MESSAGE]
    body: dict[str, Any] = {"class": cls, "message": raw.decode(errors="ignore")}
    if after > 0:
        body["retry_after"] = f"{round(after * 1000)}ms"
    return body


def _unexpected(outcome: str, err: BaseException | None) -> bool:
    return outcome == "fail" and not isinstance(err, (Failure, Ended))
