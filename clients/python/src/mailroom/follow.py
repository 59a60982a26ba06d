"""Follows a stream of server-sent events across reconnects."""

from __future__ import annotations

import http.client
import json
import time
from typing import Iterator

from .errors import MailroomError
from .rows import Delta, Entry, Event, Gap, Row, fill
from .transport import FAULTS, Transport, backoff, decode, unanswered

IDLE = 35.0  # seconds without a byte: the server sends a comment every 10


def follow(transport: Transport, path: str, *, after: str, until: str,
           deadline: float | None = None) -> Iterator[Event]:
    """Yields each entry once, and live text, until the stream ends.

    A connection that breaks is opened again after the last event. Raises TimeoutError at `deadline`, a time of
    time.monotonic, and MailroomError if the server refuses.
    """
    cursor, seq, tries, faults = after, int(after.split(":")[0] or 0), 0, 0
    while True:
        try:
            for kind, mark, row in _connection(transport, path, cursor, until, deadline):
                if kind == "end":
                    return
                tries = faults = 0
                if kind == "entry" and row["seq"] <= seq:
                    continue
                cursor = mark or cursor
                if kind == "entry":
                    seq = row["seq"]
                    yield fill(Entry, row, cursor=cursor)
                elif kind == "delta":
                    yield fill(Delta, row, cursor=cursor, kind="delta")
                elif kind == "gap":
                    if row["after"] > row["last"]:
                        seq = row["last"]
                    yield fill(Gap, row, cursor=cursor, kind="gap")
            pause = 0.0 if tries == 0 else 0.5  # closed by the server, in order
        except MailroomError as err:
            faults = faults + 1 if err.fault else 0
            if not (err.passing or 0 < faults < FAULTS):
                raise
            pause = backoff(tries, err)
        tries += 1
        if deadline is not None and time.monotonic() + pause >= deadline:
            raise TimeoutError("the run did not end in time; it goes on")
        time.sleep(pause)


def _connection(transport: Transport, path: str, cursor: str, until: str,
                deadline: float | None) -> Iterator[tuple[str, str, Row]]:
    """Yields (kind, cursor, row) of one connection; the kind `end` says that the stream is over."""
    connection = transport.dial(IDLE)
    try:
        headers = transport.headers(Accept="text/event-stream", **{"Last-Event-ID": cursor})
        connection.request("GET", transport.target(path, {"until": until}), headers=headers)
        answer = connection.getresponse()
        if answer.status == 204:
            yield "end", "", {}
            return
        if answer.status != 200:
            decode(answer.status, answer.headers, answer.read(), transport.url)
        kind, mark, data = "message", "", ""
        while line := answer.readline():
            if deadline is not None and time.monotonic() >= deadline:
                raise TimeoutError("the run did not end in time; it goes on")
            name, _, value = line.decode().rstrip("\r\n").partition(":")
            value = value[1:] if value.startswith(" ") else value
            if name == "event":
                kind = value
            elif name == "id":
                mark = value
            elif name == "data":
                data += value
            elif not name and not value and line in (b"\n", b"\r\n"):
                if data and kind in ("entry", "delta", "gap"):
                    yield kind, mark, json.loads(data)
                kind, mark, data = "message", "", ""
    except TimeoutError as err:
        if deadline is not None and time.monotonic() >= deadline:
            raise
        raise unanswered(transport.url, err) from err
    except (OSError, http.client.HTTPException) as err:
        raise unanswered(transport.url, err) from err
    finally:
        connection.close()
