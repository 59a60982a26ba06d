"""`@effect` for functions of modules, which do not see the session."""

from __future__ import annotations

import contextvars
import functools
import inspect
from typing import Any, Callable, ParamSpec, TypeVar, overload

from .asession import AsyncSession
from .effects import Happened
from .session import Session

P = ParamSpec("P")
T = TypeVar("T")
current: contextvars.ContextVar[Session | AsyncSession] = contextvars.ContextVar("mailroom_session")


@overload
def effect(fn: Callable[P, T], /) -> Callable[P, T]: ...


@overload
def effect(*, name: str | None = None, idempotent: bool = False,
           reconcile: Callable[[], Happened[Any] | None] | None = None
           ) -> Callable[[Callable[P, T]], Callable[P, T]]: ...


def effect(fn: Any = None, /, *, name: str | None = None, idempotent: bool = False, reconcile: Any = None) -> Any:
    """Makes each call of a function an effect of the run whose handler calls it, see Session.effect.

    The name is that of the function, filled in with its arguments where `name` is a pattern such as
    "pay {order}". Two calls of one name in a run are one call, and a conflict if their arguments differ.
    """

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            session = current.get(None)
            if session is None:
                raise RuntimeError(f"{function.__name__} is an effect, and this thread runs no handler; "
                                   "call s.effect in threads of a handler, and __wrapped__ in tests")
            bound = inspect.signature(function).bind(*args, **kwargs)
            bound.apply_defaults()
            called = (name or function.__name__).format(**bound.arguments)
            if isinstance(session, AsyncSession) and not inspect.iscoroutinefunction(function):
                session = session.sync
            elif isinstance(session, Session) and inspect.iscoroutinefunction(function):
                raise RuntimeError(f"{function.__name__} is async, and this handler is not; use async def for both")
            given = dict(bound.arguments)
            if isinstance(session, AsyncSession):
                return session.effect(called, lambda: function(*args, **kwargs), input=given, idempotent=idempotent,
                                      reconcile=reconcile)
            return session._once(called, lambda: function(*args, **kwargs), given, idempotent, reconcile)
        return call

    made: Any = decorate if fn is None else decorate(fn)
    return made
