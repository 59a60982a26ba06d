"""Agents for processes that tests kill: python agents.py AGENT NOTES. NOTES is a file for lines, and for `go`."""

import asyncio
import os
import pathlib
import sys
import time

from mailroom import AsyncSession, Session, Worker

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


@worker.agent("stuck")
def stuck(s: Session) -> None:
    note("begun")
    wait_for("go")
    s.write("text")
    s.checkpoint(1)


@worker.agent("stuck-async")
async def stuck_async(s: AsyncSession) -> None:
    note("begun")
    while not notes.with_name("go").exists():
        await asyncio.sleep(0.02)
    await s.write("text")
    await s.checkpoint(1)


@worker.agent("closes")
def closes(s: Session) -> str:
    sys.stdout.close()
    sys.stderr.close()
    return f"closed, {s.text}"


worker._handlers = {agent: worker._handlers[agent]}
note(f"up {os.getpid()}")
worker.run()
note(f"left {os.getpid()}")
