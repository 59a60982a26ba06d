"""The session of an `async def` handler."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import inspect
from collections import defaultdict
from typing import Any, Awaitable, Callable, Coroutine, Mapping, TypeVar

from .answers import Approval, Child, Log
from .attempt import Attempt, beside, kept_stops
from .blobs import AsyncBlobs, Content
from .effects import Happened
from .errors import Parked
from .rows import Message, Row
from .session import UNSET, Session

T = TypeVar("T")


class AsyncSession:
    """Session for `async def handle(s)`: the same names; what asks the server is awaited.

    All async handlers of a worker run on one loop, in a thread of its own. A handler that blocks the loop holds up
    the others, but no lease: claims are renewed in another thread. A stop cancels the task.

    What one asyncio.gather waits for is asked together, and the first decision starts the next attempt. Before the
    attempt ends, effects and memos that run beside a question finish, and are recorded.
    """

    def __init__(self, session: Session) -> None:
        self.sync = session  # for code that runs in other threads
        self._attempt: Attempt = session._attempt
        self.blobs = AsyncBlobs(session.blobs, _away)
        # By name of an effect. Calls of one name wait for each other here, on the loop. If they waited in threads of
        # the loop's pool, they could occupy all of them, and the call that they wait for needs one.
        self._turns: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._open = 0  # calls under way, which may still ask or record something
        self._quiet = asyncio.Event()  # set when the last of them ends

    input = property(lambda self: self.sync.input, doc=Session.input.__doc__)
    text = property(lambda self: self.sync.text, doc=Session.text.__doc__)
    run = property(lambda self: self.sync.run, doc=Session.run.__doc__)
    thread = property(lambda self: self.sync.thread, doc=Session.thread.__doc__)
    agent = property(lambda self: self.sync.agent, doc=Session.agent.__doc__)
    attempt = property(lambda self: self.sync.attempt, doc=Session.attempt.__doc__)
    options = property(lambda self: self.sync.options, doc=Session.options.__doc__)
    stopping = property(lambda self: self.sync.stopping, doc=Session.stopping.__doc__)
    saved = property(lambda self: self.sync.saved, doc=Session.saved.__doc__)

    @property
    def state(self) -> Any:
        """See Session.state."""
        return self.sync.state

    @state.setter
    def state(self, value: Any) -> None:
        self.sync.state = value

    async def checkpoint(self, value: Any) -> None:
        """See Session.checkpoint."""
        await _away(self.sync.checkpoint, value)

    async def write(self, text: str) -> None:
        """See Session.write."""
        await _away(self.sync.write, text)

    async def reasoning(self, text: str) -> None:
        """See Session.reasoning."""
        await _away(self.sync.reasoning, text)

    async def step(self, name: str | None = None, *, entries: list[Row] | None = None, usage: Row | None = None,
                   checkpoint: Any = UNSET, progress: float | None = None, parts: list[Row] | None = None,
                   aside: bool = False, extend: float | None = None,
                   blobs: Mapping[str, Content | None] | None = None) -> None:
        """See Session.step."""
        await _away(self.sync.step, name, entries=entries, usage=usage, checkpoint=checkpoint, progress=progress,
                    parts=parts, aside=aside, extend=extend, blobs=blobs)

    async def extend(self, seconds: float) -> None:
        """See Session.extend."""
        await _away(self.sync.extend, seconds)

    def waits_on(self, text: str) -> None:
        """See Session.waits_on. It is not awaited."""
        self.sync.waits_on(text)

    async def tool(self, name: str, arguments: Any = None, *, call: str | None = None) -> str:
        """See Session.tool."""
        return await _away(self.sync.tool, name, arguments, call=call)

    async def tool_arguments(self, call: str, name: str, text: str) -> None:
        """See Session.tool_arguments."""
        await _away(self.sync.tool_arguments, call, name, text)

    async def tool_finished(self, call: str, output: Any = None, *, ok: bool = True, summary: str = "") -> None:
        """See Session.tool_finished."""
        await _away(self.sync.tool_finished, call, output, ok=ok, summary=summary)

    async def effect(self, name: str, fn: Callable[[], Awaitable[T] | T], /, *, input: Any = None,
                     idempotent: bool = False, reconcile: Callable[[], Any] | None = None) -> T:
        """See Session.effect. `fn` and `reconcile` may be async; if not, they run in a thread."""
        self.sync._effects.not_inside(name)
        kept: T = await self._beside(self._once(name, fn, input, idempotent, reconcile))
        return kept

    async def _beside(self, call: Coroutine[Any, Any, T]) -> T:
        """Awaits a call. If it parks the run, the handler learns that when the calls beside it have ended."""
        if beside.get():
            return await call  # inside another call, which waits for those beside it
        self._open += 1
        self._quiet.clear()
        token = beside.set(True)
        try:
            return await call
        except Parked as err:
            parked = err
        finally:
            beside.reset(token)
            self._open -= 1
            if not self._open:
                self._quiet.set()
        while self._open:
            await self._quiet.wait()
        self._attempt.told = True
        raise parked

    async def _once(self, name: str, fn: Callable[[], Any], input: Any, idempotent: bool, reconcile: Any) -> Any:
        async with self._turns[name]:
            return await self._called(name, fn, input, idempotent, reconcile)

    async def _called(self, name: str, fn: Callable[[], Any], input: Any, idempotent: bool, reconcile: Any) -> Any:
        call = await _away(self.sync._effects.call, name, input, idempotent, reconcile is not None)
        try:
            if not call.settled and call.must_reconcile and reconcile is not None:
                with call.scope():
                    found: Happened[Any] | None = await _run(reconcile)
                await _away(call.reconciled, found)
            if not call.settled:
                try:
                    await _surely(call.record_begin)
                except asyncio.CancelledError:
                    await _surely(call.not_called)  # else its outcome would be unknown
                    raise
                try:
                    with call.scope():
                        value = await _run(fn)
                except BaseException as err:
                    await _surely(call.fail, err)
                    raise
                await _surely(call.finish, value)
            return call.value
        finally:
            call.done()

    async def memo(self, name: str, fn: Callable[[], Awaitable[T] | T]) -> T:
        """See Session.memo. `fn` may be async."""
        self.sync._effects.not_inside(name)
        kept: T = await self._beside(self._kept(name, fn))
        return kept

    async def _kept(self, name: str, fn: Callable[[], Any]) -> Any:
        async with self._turns[name]:
            call = await _away(self.sync._effects.call, name, None, True, False, memo=True)
            try:
                if not call.settled:
                    with call.scope():
                        made = await _run(fn)
                    await _surely(call.finish, made)
                return call.value
            finally:
                call.done()

    async def approval(self, name: str, *, prompt: str, action: str = "", arguments: Any = None,
                       expires: float | None = None) -> Approval:
        """See Session.approval."""
        return await self._beside(_away(self.sync.approval, name, prompt=prompt, action=action, arguments=arguments,
                                        expires=expires))

    async def ask(self, name: str, prompt: str, *, expires: float | None = None) -> Any:
        """See Session.ask."""
        return await self._beside(_away(self.sync.ask, name, prompt, expires=expires))

    async def event(self, name: str, *, expires: float | None = None) -> Any:
        """See Session.event."""
        return await self._beside(_away(self.sync.event, name, expires=expires))

    async def sleep(self, name: str, seconds: float) -> None:
        """See Session.sleep."""
        await self._beside(_away(self.sync.sleep, name, seconds))

    async def send(self, name: str, text: str, *, agent: str | None = None, thread: str | None = None,
                   wake: bool = False, **more: Any) -> None:
        """See Session.send."""
        await _away(self.sync.send, name, text, agent=agent, thread=thread, wake=wake, **more)

    async def call(self, name: str, text: str, *, agent: str | None = None, thread: str | None = None,
                   **more: Any) -> Child:
        """See Session.call."""
        return await self._beside(_away(self.sync.call, name, text, agent=agent, thread=thread, **more))

    async def steered(self) -> list[Message]:
        """See Session.steered."""
        return await _away(self.sync.steered)

    async def transcript(self, n: int = 100) -> list[Message]:
        """See Session.transcript."""
        return await _away(self.sync.transcript, n)

    async def log(self, kinds: list[str] | None = None, *, limit: int = 100, before: int | None = None) -> Log:
        """See Session.log."""
        return await _away(self.sync.log, kinds, limit=limit, before=before)


async def _away(fn: Callable[..., T], *args: Any, **kwargs: Any) -> T:
    """Calls a function that blocks, in a thread, with the context of the task."""
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        raise RuntimeError("this session is of another loop or process; other threads use `s.sync`, and a forked child "
                           "must give its result to its parent") from None
    context = contextvars.copy_context()
    call = functools.partial(fn, *args, **kwargs)
    stops: list[Callable[[], None]] = []
    context.run(kept_stops.set, stops)
    try:
        return await loop.run_in_executor(None, lambda: context.run(call))
    finally:  # a stop that comes after a cancelled call arrives with the next renewal
        for stop in stops:
            stop()


async def _surely(fn: Callable[..., T], *args: Any) -> T:
    """Calls a function that blocks, and waits for its end even if the task is cancelled.

    The attempt is settled once the task has ended, and refuses a record that comes after that.
    """
    call = asyncio.ensure_future(_away(fn, *args))
    cancelled: asyncio.CancelledError | None = None
    while not call.done():
        try:
            await asyncio.wait([call])
        except asyncio.CancelledError as err:
            cancelled = err
    if cancelled is not None:
        call.exception()  # else asyncio logs an exception that was never retrieved
        raise cancelled
    return call.result()


async def _run(fn: Callable[[], Any]) -> Any:
    """Calls a function. One that is not async runs in a thread, so that it does not block the loop."""
    if inspect.iscoroutinefunction(fn):
        return await fn()
    value = await _away(fn)
    return await value if inspect.isawaitable(value) else value
