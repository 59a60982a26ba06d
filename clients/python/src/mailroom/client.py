"""The client: sends messages, follows runs, decides tickets."""

from __future__ import annotations

import urllib.parse
import uuid
from typing import Any, Iterator, Literal, Mapping

from . import limits
from .jsontext import bounded, check, clean
from .rows import Message, Row, Thread, Ticket, fill
from .run import Run
from .transport import Query, Transport

Mode = Literal["queue", "steer", "interrupt", "latest", "collect", "reject"]
Verdict = Literal["approve", "deny", "answer"]


class Mailroom:
    """A client of one server. `url` and `token` default to MAILROOM_URL and MAILROOM_TOKEN.

    Safe for use by several threads. A request without an answer is repeated a few times; none takes effect twice.

        run = Mailroom().send("hello", agent="shout")
        print(run.wait().reply)

    Its connections are closed with the last reference to it, or at the end of a `with Mailroom() as mailroom:`.
    """

    def __init__(self, url: str | None = None, token: str | None = None) -> None:
        self.transport = Transport(url, token)

    def send(self, text: str, *, agent: str | None = None, thread: str | None = None, mode: Mode | None = None,
             key: str | None = None, priority: int | None = None, not_before: str | None = None,
             deadline: str | None = None, max_attempts: int | None = None, options: Any = None,
             metadata: Mapping[str, str] | None = None, parts: list[Row] | None = None,
             retry: Mapping[str, Any] | None = None, budget: Mapping[str, Any] | None = None,
             concurrency_key: str | None = None) -> Run:
        """Submits a message to a thread (default: a new one) and returns its run.

        The same key is one submit, also across processes; the default is a key of this call's own. `not_before` and
        `deadline` are times (RFC 3339); `deadline` also a duration such as "30m". `parts` are sent after the text.
        `retry` says how failures are retried, such as {"first": "10s", "factor": 2, "outage": "1h"}.
        `concurrency_key` is what the agent's `key_limit` and `key_rate` count the run under, such as a customer.
        `budget` bounds what the run may use with all that it sends, such as {"usd": 1.5, "tokens": 200_000, "turns": 30}.
        """
        body: Row = {"key": key or uuid.uuid4().hex}
        text = bounded(text)
        if parts:
            body["parts"] = ([{"type": "text", "text": text}] if text else []) + parts
        else:
            body["text"] = text
        if options is not None:
            check("options", options, 64 << 10)
        given = {"agent": agent, "thread": thread, "mode": mode, "priority": priority, "not_before": not_before,
                 "concurrency_key": concurrency_key, "deadline": deadline, "max_attempts": max_attempts, "options": options,
                 "budget": None if budget is None else dict(budget),
                 "retry": None if retry is None else dict(retry),
                 "metadata": None if metadata is None else dict(metadata)}
        body.update({k: v for k, v in given.items() if v is not None})
        out = self.transport.call("POST", "/v1/messages", body)
        return Run(self.transport, {"id": out["run"], "thread": out["thread"], "status": out["status"]}, sent=out)

    def __enter__(self) -> Mailroom:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connection of this thread. A later call opens another one."""
        self.transport.close()

    def run(self, id: str) -> Run:
        """Gets a run."""
        return Run(self.transport, self.transport.call("GET", at("v1", "runs", id)))

    def runs(self, q: str | None = None) -> Iterator[Run]:
        """Lists runs, newest first, page by page. `q` filters, such as "status:failed agent:coder"."""
        return (Run(self.transport, row) for row in self._list("/v1/runs", {"q": q}))

    def threads(self, q: str | None = None) -> Iterator[Thread]:
        """Lists threads, newest first, page by page."""
        return (fill(Thread, row) for row in self._list("/v1/threads", {"q": q}))

    def messages(self, thread: str) -> Iterator[Message]:
        """Lists the messages of a thread, the newest first."""
        before: str | None = None
        while True:
            page = self.transport.call("GET", at("v1", "threads", thread, "messages"), query={"before": before})
            yield from (fill(Message, row) for row in reversed(page["items"] or []))
            before = page["next"]
            if not before:
                return

    def tickets(self, q: str | None = None) -> Iterator[Ticket]:
        """Lists tickets, newest first, page by page."""
        return (fill(Ticket, row) for row in self._list("/v1/tickets", {"q": q}))

    def asks(self, *, run: str | None = None, thread: str | None = None) -> Iterator[Ticket]:
        """Lists the open questions to people: approvals and inputs."""
        terms = ["state:open", "kind:approval,input"]
        terms += [f"run:{run}"] if run else []
        terms += [f"thread:{thread}"] if thread else []
        return self.tickets(" ".join(terms))

    def decide(self, ticket: Ticket, verdict: Verdict, *, answer: Any = None, reason: str | None = None) -> Ticket:
        """Approves, denies or answers a ticket, once.

        It takes the ticket that was shown, not its id, because an approval is bound to what was shown.
        """
        body: Row = {"decision": verdict, "digest": ticket.digest}
        if verdict == "answer":
            check("the answer", answer, limits.ANSWER)
            body["answer"] = answer
        if reason is not None:
            body["reason"] = clean(reason)
        return self._ticket(self.transport.call("POST", at("v1", "tickets", ticket.id), body))

    def cancel(self, run: str | Run, *, children: bool = False) -> Run:
        """Cancels a run, or asks it to stop if it is running."""
        id = run.id if isinstance(run, Run) else run
        return Run(self.transport, self.transport.call("POST", at("v1", "runs", id, "cancel"), {"children": children}))

    def _ticket(self, row: Row) -> Ticket:
        ticket: Ticket = fill(Ticket, row)
        return ticket

    def _list(self, path: str, query: Query) -> Iterator[Row]:
        while True:
            page = self.transport.call("GET", path, query=query)
            yield from page["items"] or []
            if not page["next"]:
                return
            query = {**query, "cursor": page["next"]}


def at(*parts: str) -> str:
    """The path with these parts, escaped."""
    return "".join("/" + urllib.parse.quote(p, safe="") for p in parts)
