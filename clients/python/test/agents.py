"""Agents for processes that tests kill: python agents.py AGENT NOTES. NOTES is a file for lines, and for `go`."""

import os
import pathlib
import sys
import time

from mailroom import Session, Worker

agent, notes = sys.argv[1], pathlib.Path(sys.argv[2])
worker = Worker(grace=2)


def note(line: str) -> None:
    with notes.open("a") as file:
        file.write(line + "\n")


def wait_for(name: str) -> None:
    while not notes.with_name(name).exists():
        time.sleep(0.02)


@worker.agent("pay")
def pay(s: Session) -> str:
    def call() -> str:
        note(f"paid by {os.getpid()}")
        wait_for("go")
        return "receipt"
    return f"got {s.effect('pay', call)}"


@worker.agent("slow")
def slow(s: Session) -> str:
    first = s.effect("first", lambda: note(f"first {os.getpid()}") or "one")
    wait_for("go")
    s.checkpoint({"after": "go"})
    return f"{first}, done by {os.getpid()}"


@worker.agent("closes")
def closes(s: Session) -> str:
    sys.stdout.close()
    sys.stderr.close()
    return f"closed, {s.text}"


worker._handlers = {agent: worker._handlers[agent]}
note(f"up {os.getpid()}")
worker.run()
note(f"left {os.getpid()}")
