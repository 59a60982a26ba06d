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
from .errors import Ended, Failure, LeaseLost, MailroomError, Overdue, Stopped
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

    def start(self, attempt: Attempt, handler: Callable[..., Any], settled: Callable[[], None],
              done: Callable[[], None]) -> None:
        """Starts an attempt. `settled` is called when the server has its end, `done` when the handler has returned."""
        threading.Thread(target=self._perform, args=(attempt, handler, settled, done), name=f"run {attempt.id}",
                         daemon=True).start()

    def close(self) -> None:
        """Stops the loop. Handlers that still run are left to the end of the process."""
        self._closed = True
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._loop.stop)

    def _perform(self, attempt: Attempt, handler: Callable[..., Any], settled: Callable[[], None],
                 done: Callable[[], None]) -> None:
        pid, at = os.getpid(), time.monotonic()
        names = {"run": attempt.run["id"], "thread": attempt.run["thread"], "agent": attempt.run["agent"]}
        self._log(logging.INFO, "attempt started", **names, attempt=attempt.run["attempt"])
        session = Session(attempt)
        try:
            raised: BaseException | None = None
            try:
                result = self._call(attempt, session, handler)
                if result is not None and attempt.parked is None:
                    if not isinstance(result, str):
                        raise Failure("permanent", f"the handler returned {type(result).__name__}; "
                                      "return a str, which is written, or None")
                    session.write(result)
                if attempt.parked is None:
                    attempt.finish()
            except BaseException as err:
                raised = err
            if os.getpid() != pid:  # the child of a fork in the handler
                os._exit(1)
            outcome = self._settle(attempt, raised)
            self._log(logging.WARNING if outcome == "fail" else logging.INFO, "attempt ended", **names, outcome=outcome,
                      ms=round((time.monotonic() - at) * 1000), exc=raised if _unexpected(outcome, raised) else None)
        finally:
            attempt.transport.close()
            settled()
            done()

    def _call(self, attempt: Attempt, session: Session, handler: Callable[..., Any]) -> Any:
        current.set(session)  # of this thread, which ends with the attempt
        attempt.enter()
        attempt.entered = True
        if not inspect.iscoroutinefunction(handler):
            return handler(session)
        loop, ended, made = self._running_loop(), threading.Event(), []

        def begin() -> None:
            seen = AsyncSession(session)
            current.set(seen)

            async def call() -> Any:
                return await handler(seen)  # a handler that takes something else raises here, within the task
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

    def _settle(self, attempt: Attempt, raised: BaseException | None) -> str:
        """Says how the attempt ended. A handler that swallowed Parked is parked all the same."""
        try:
            if attempt.parked is not None and not isinstance(attempt.why, LeaseLost):
                parked = attempt.parked
                attempt.settle("wait", wait={"names": parked["names"], "any": parked["any"]}, tickets=parked["asks"])
                return "wait"
            why = raised if raised is None or attempt.why is None else attempt.why
            if why is None:
                attempt.settle("complete")
                return "complete"
            if isinstance(why, LeaseLost):
                return "lost"
            if isinstance(why, Stopped) and not isinstance(why, Overdue):
                attempt.settle("release", entered=attempt.entered)
                return "release"
            attempt.settle("fail", failure=_failure(why))
            return "fail"
        except LeaseLost:
            return "lost"
        except MailroomError as err:
            return self._refused(attempt, err)

    def _refused(self, attempt: Attempt, err: MailroomError) -> str:
        """Settles an attempt whose settle the server refused, for example because of what a ticket says."""
        self._log(logging.ERROR, "settle refused", run=attempt.run["id"], thread=attempt.run["thread"], error=str(err))
        try:
            attempt.reopen()
            message = clean(f"the server refused the end of the attempt: {err}")
            attempt.settle("fail", failure={"class": "permanent", "message": message})
        except (Ended, MailroomError):
            return "lost"
        return "fail"

    def watch(self, attempt: Attempt, settled: Callable[[], None]) -> None:
        """Ends an attempt at its deadline, and settles one whose handler does not return within the grace.

        A thread of Python cannot be killed: the handler keeps its slot until it returns, and can write nothing.
        """
        deadline, now = attempt.claim.get("deadline_ms"), time.monotonic()
        if deadline and now - attempt.begun >= deadline / 1000:
            attempt.end(Overdue(f"the attempt took longer than {deadline} ms"))
        if attempt.why is not None and not attempt.forced and now - attempt.ended_at >= self._grace:
            attempt.forced = True
            threading.Thread(target=self._force, args=(attempt, settled), daemon=True).start()

    def _force(self, attempt: Attempt, settled: Callable[[], None]) -> None:
        self._log(logging.WARNING, "handler does not stop", run=attempt.run["id"], thread=attempt.run["thread"],
                  why=str(attempt.why), grace=f"{self._grace:g}s")
        try:
            if isinstance(attempt.why, Overdue):
                attempt.settle("fail", failure=_failure(attempt.why))
            elif not isinstance(attempt.why, LeaseLost):
                attempt.settle("release", entered=True, forced=True)
        except (Ended, MailroomError) as err:
            self._log(logging.WARNING, "settle refused", run=attempt.run["id"], error=str(err))
        finally:
            attempt.transport.close()
            settled()

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                # A handler may have several calls under way, such as effects of parallel tools.
                self._loop.set_default_executor(ThreadPoolExecutor(4 * self._slots + 4, "mailroom async"))
                threading.Thread(target=self._run_loop, args=(self._loop,), name="mailroom loop", daemon=True).start()
            return self._loop

    def _run_loop(self, loop: asyncio.AbstractEventLoop) -> None:
        """Runs the loop until close. A task that exits ends its attempt, and would end the loop of all others too."""
        while not self._closed:
            try:
                loop.run_forever()
            except (SystemExit, KeyboardInterrupt):
                pass  # asyncio has recorded it in the task


def _failure(err: BaseException) -> dict[str, Any]:
    """The failure that an exception means. Messages are bounded in bytes."""
    cls, after = ("transient", 0.0)
    message = str(err)
    if isinstance(err, Failure):
        cls, after = err.cls, err.retry_after
    elif isinstance(err, MailroomError) and err.code in ("too_large", "invalid", "conflict"):
        cls = "permanent"  # the next attempt would send the same
    elif isinstance(err, SystemExit):
        message = f"the handler called sys.exit({err.code!r}); raise Failure, or return"
    elif not isinstance(err, (Ended, MailroomError)):
        message = f"{type(err).__name__}: {err}"
    raw = clean(message or type(err).__name__).encode()[:limits.MESSAGE]
    body: dict[str, Any] = {"class": cls, "message": raw.decode(errors="ignore")}
    if after > 0:
        body["retry_after"] = f"{round(after * 1000)}ms"
    return body


def _unexpected(outcome: str, err: BaseException | None) -> bool:
    return outcome == "fail" and not isinstance(err, (Failure, Ended))
