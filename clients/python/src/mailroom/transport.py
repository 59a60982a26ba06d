"""Requests to one server, over one kept connection per thread.

Proxy variables of the environment are not used: a worker on the server's machine would send its token to the proxy.
"""

from __future__ import annotations

import http.client
import json
import os
import random
import socket
import ssl
import threading
import time
import urllib.parse
import weakref
from typing import Any, Callable

from . import limits
from .errors import MailroomError
from .jsontext import canonical

Query = dict[str, Any]
BINARY = "application/octet-stream"  # of the content of a blob
FAULTS = 5  # answers with the code `internal` in a row, after which a request is not repeated


class _Kept:
    """The connection that a thread keeps. It is closed with the thread, and with the transport, that let it go."""

    def __init__(self, connection: http.client.HTTPConnection) -> None:
        self.connection = connection
        self.pid = os.getpid()

    def __del__(self) -> None:
        self.connection.close()


class Transport:
    """Sends requests to the server at `url` with a bearer token. Safe for use by several threads.

    A kept connection is closed by `close`, with its thread, or with the last reference to the transport.
    """

    def __init__(self, url: str | None = None, token: str | None = None) -> None:
        parts, self._port = address(url or os.environ.get("MAILROOM_URL") or "http://127.0.0.1:8420")
        self.url = f"{parts.scheme}://{parts.netloc}{parts.path}"  # is shown: no query, which may have a secret
        self._token = token or os.environ.get("MAILROOM_TOKEN") or ""
        if not self._token.isascii() or any(c.isspace() for c in self._token):
            raise MailroomError("invalid", "the token has characters other than visible ASCII; check MAILROOM_TOKEN")
        self._tls = ssl.create_default_context() if parts.scheme == "https" else None
        self._host, self._prefix = parts.hostname or "", parts.path
        self._kept = threading.local()
        # The kept connection of each thread, for hang_up. Weak, because threads that a handler starts may end without
        # a call of close.
        self._open: weakref.WeakValueDictionary[int, http.client.HTTPConnection] = weakref.WeakValueDictionary()
        self._hung_up: set[int] = set()  # threads whose request hang_up has ended

    def dial(self, timeout: float) -> http.client.HTTPConnection:
        """Makes a connection, which connects with its first request."""
        if self._tls:
            return http.client.HTTPSConnection(self._host, self._port, timeout=timeout, context=self._tls)
        return http.client.HTTPConnection(self._host, self._port, timeout=timeout)

    def headers(self, **more: str) -> dict[str, str]:
        """The headers of every request."""
        found = {"User-Agent": "mailroom-python/0.1.0", "Accept": "application/json", **more}
        if self._token:
            found["Authorization"] = f"Bearer {self._token}"
        return found

    def target(self, path: str, query: Query | None = None) -> str:
        """The request target of a path of the API."""
        given = {k: v for k, v in (query or {}).items() if v is not None}
        return self._prefix + path + ("?" + urllib.parse.urlencode(given, doseq=True) if given else "")

    def once(self, method: str, path: str, body: Any = None, *, query: Query | None = None, timeout: float = 30,
             most: int = limits.BODY) -> Any:
        """Sends a request and returns the decoded answer. Raises MailroomError, `unavailable` if no answer came."""
        raw = body if body is None or isinstance(body, bytes) else canonical(body).encode()
        if raw is not None and len(raw) > most:
            raise MailroomError(
                "too_large", f"the request has {len(raw):,} bytes, more than {most:,}: send less, or a reference")
        kind = BINARY if isinstance(body, bytes) else "application/json"
        headers = self.headers(**({} if raw is None else {"Content-Type": kind}))
        for fresh in (False, True):
            connection, kept = self._connection(timeout, fresh)
            try:
                connection.request(method, self.target(path, query), raw, headers)
                answer = connection.getresponse()
                data = answer.read()
            except (OSError, http.client.HTTPException) as err:
                self.close()
                hung_up = threading.get_ident() in self._hung_up
                self._hung_up.discard(threading.get_ident())
                if kept and not hung_up and not isinstance(err, TimeoutError):
                    continue  # the server closed a kept connection; every request of this package can be repeated
                raise unanswered(self.url, err) from err
            if answer.will_close:
                self.close()
            return decode(answer.status, answer.headers, data, self.url)
        raise AssertionError("a fresh connection either answers or raises")

    def call(self, method: str, path: str, body: Any = None, *, query: Query | None = None, timeout: float = 30,
             most: int = limits.BODY, goes_on: Callable[[float], bool] | None = None) -> Any:
        """Repeats a request until it is answered, and a few times if the answer is a fault of the server.

        `goes_on(seconds)` pauses, and returns False to give up; the default gives up after six tries.
        """
        faults = 0
        for n in range(1_000_000_000):
            try:
                return self.once(method, path, body, query=query, timeout=timeout, most=most)
            except MailroomError as err:
                faults = faults + 1 if err.fault else 0
                if not (err.passing or 0 < faults < FAULTS) or (goes_on is None and n >= 5):
                    raise
                pause = backoff(n, err)
                if goes_on is None:
                    time.sleep(pause)
                elif not goes_on(pause):
                    raise

    def hang_up(self, thread: int | None) -> None:
        """Ends the request of another thread: it raises, or is repeated, as if no answer had come."""
        connection = self._open.get(thread or 0)
        if thread is None or connection is None or connection.sock is None:
            return
        self._hung_up.add(thread)
        try:
            connection.sock.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # it is closed already

    def close(self) -> None:
        """Closes the kept connection of this thread."""
        kept: _Kept | None = getattr(self._kept, "one", None)
        self._open.pop(threading.get_ident(), None)
        self._kept.one = None
        if kept is not None:
            kept.connection.close()

    def _connection(self, timeout: float, fresh: bool) -> tuple[http.client.HTTPConnection, bool]:
        kept: _Kept | None = getattr(self._kept, "one", None)
        # A forked child must not write into the connection of its parent.
        if kept is not None and (fresh or kept.pid != os.getpid()):
            self.close()
            kept = None
        if kept is not None and kept.connection.sock is not None:
            kept.connection.sock.settimeout(timeout)
            return kept.connection, True
        made = self.dial(timeout)
        self._kept.one = _Kept(made)
        self._open[threading.get_ident()] = made
        return made, False


def backoff(tries: int, err: MailroomError, most: float = 3.0) -> float:
    """Seconds until the next try. Up to a half is random: many workers lose the same server at the same time."""
    return max(err.retry_after, min(0.1 * float(2 ** min(tries, 10)), most) * (1 - random.random() / 2))


def address(url: str) -> tuple[urllib.parse.SplitResult, int | None]:
    """Reads the address of a server: its parts, and its port. No message shows a user name or a password."""
    if "@" in url:
        raise MailroomError("invalid", "the address of the server has an @: Mailroom uses no user name or password; "
                            "take them out of MAILROOM_URL, and set MAILROOM_TOKEN to a token")
    try:
        parts = urllib.parse.urlsplit(url.rstrip("/"))
        port = parts.port
    except ValueError:
        parts, port = urllib.parse.urlsplit(""), None
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0:
        shown = url.split("?")[0][:200]
        raise MailroomError("invalid", f"{shown!r} is not a server's address; use one such as http://127.0.0.1:8420")
    return parts, port


def unanswered(url: str, err: Exception) -> MailroomError:
    """The error of a request without an answer."""
    if isinstance(err, ssl.SSLCertVerificationError):
        return MailroomError(
            "certificate", f"the certificate of {url} is not trusted ({err.verify_message}); add its CA to the system")
    if isinstance(err, socket.gaierror):
        return MailroomError("unavailable", f"no address for {url} ({err.strerror}); check MAILROOM_URL")
    why = str(err) or type(err).__name__
    return MailroomError("unavailable", f"no answer from the server at {url} ({why}); check MAILROOM_URL")


def decode(status: int, headers: Any, data: bytes, url: str) -> Any:
    """Returns the JSON of an answer, or the content of a blob, or raises the error in it."""
    if status == 200 and headers.get("Content-Type") == BINARY:
        return data
    try:
        found = json.loads(data) if data else None
    except ValueError:
        found = None
        if 200 <= status < 300:
            raise MailroomError(
                "incompatible", f"{url} did not answer with JSON; check MAILROOM_URL") from None
    if 200 <= status < 300:
        return found
    raise refusal(status, headers, found if isinstance(found, dict) else {}, url)


def refusal(status: int, headers: Any, problem: dict[str, Any], url: str) -> MailroomError:
    """The error in an answer. One without a code did not come from a Mailroom server."""
    try:
        after = float(headers.get("Retry-After") or 0)
    except ValueError:
        after = 0
    code, detail = problem.get("code"), problem.get("detail") or f"the server answered {status}"
    fields = problem.get("errors") or []
    for field in fields:
        place = f"{field.get('location')}: {field.get('message')}"
        if str(field.get("message")) not in detail:
            detail = f"{detail}; {place}"
    if status in (401, 403) and code in (None, "unauthenticated", "forbidden"):
        detail += ("; make a token with `mailroom token create NAME --scope read,submit,decide,work`, "
                   "and set MAILROOM_TOKEN to it")
    if not isinstance(code, str):
        gateway = status in (408, 429, 502, 503, 504)
        code = "unavailable" if gateway else "incompatible"
        if not gateway:
            detail = (f"{url} answered {status} and not as a Mailroom server does; check MAILROOM_URL, "
                      "and that the server is no older than this package")
    return MailroomError(code, detail, retry_after=after, status=status,
                         places=tuple(str(field.get("location")) for field in fields))
