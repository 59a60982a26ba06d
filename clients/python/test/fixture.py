"""A server of the real binary, workers in this process and in others, and waits for states."""

from __future__ import annotations

import logging
import os
import pathlib
import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from typing import Any, Callable

from mailroom import Mailroom, Run, Worker

HERE = pathlib.Path(__file__).resolve().parent
BINARY = os.environ.get("MAILROOM_BIN") or str(HERE.parents[2] / "bin" / "mailroom")
logging.getLogger("mailroom").addHandler(logging.NullHandler())  # else a worker shows its log
QUICK = '\n[retry]\nfirst = "100ms"\n'  # instead of seconds
PATIENCE = 120  # seconds; a bound for machines that hang, no timing


def until(what: str, check: Callable[[], Any]) -> Any:
    """Waits for a state, and returns what check returns then."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        if found := check():
            return found
        time.sleep(0.02)
    raise AssertionError(f"not so after {PATIENCE} s: {what}")


def own_port() -> int:
    """A free port that the system gives to no other program by itself, also while the server that listens there is down."""
    try:
        first = int(pathlib.Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    except OSError:
        first = 32768
    while True:
        port = random.randrange(max(first - 12000, 1025), first)
        with socket.socket() as s:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                s.bind(("127.0.0.1", port))
            except OSError:
                continue
        return port


class Server:
    """A server process on a port of its own, with its data in a folder that outlives it."""

    def __init__(self, config: str = "") -> None:
        if not os.path.exists(BINARY):
            raise FileNotFoundError(f"no {BINARY}: run `make build`, or set MAILROOM_BIN")
        self._folder = tempfile.TemporaryDirectory()
        self.data = pathlib.Path(self._folder.name)
        self.port = own_port()
        self.url = f"http://127.0.0.1:{self.port}"
        (self.data / "mailroom.toml").write_text(config + QUICK)
        self.start()

    def start(self) -> None:
        command = [BINARY, "serve", "--data", str(self.data), "--listen", f"127.0.0.1:{self.port}"]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        until("the server answers", self._answers)
        self.token = until("its token", lambda: (self.data / "token").read_text().strip())

    def _answers(self) -> bool:
        if self.process.poll() is not None:
            raise AssertionError(f"the server ended with {self.process.returncode}")
        try:
            socket.create_connection(("127.0.0.1", self.port), 1).close()
            return True
        except OSError:
            return False

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def close(self) -> None:
        self.kill()
        self._folder.cleanup()


class Case(unittest.TestCase):
    """A test with a server, shared by the tests of the class."""

    server: Server

    @classmethod
    def setUpClass(cls) -> None:
        cls.server = Server()
        cls.addClassCleanup(cls.server.close)

    def setUp(self) -> None:
        self.mailroom = Mailroom(self.server.url, self.server.token)
        self.addCleanup(self.mailroom.close)

    def serve(self, agent: str, handler: Callable[..., Any], *, url: str = "", **options: Any) -> Worker:
        """Serves an agent in this process until the end of the test."""
        worker = Worker(url or self.server.url, self.server.token, **options)
        worker.agent(agent)(handler)
        thread = threading.Thread(target=worker.run)
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(worker.stop)
        self.registered(agent)
        return worker

    def registered(self, agent: str, workers: int = 1) -> None:
        """Waits until so many workers serve an agent."""
        def served() -> bool:
            rows = self.mailroom.transport.call("GET", "/v1/workers")["items"] or []
            return sum(agent in row["agents"] for row in rows) >= workers
        until(f"{workers} workers for {agent}", served)

    def env(self, url: str = "") -> dict[str, str]:
        """The environment of another process."""
        return {**os.environ, "MAILROOM_URL": url or self.server.url, "MAILROOM_TOKEN": self.server.token}

    def spawn(self, agent: str, notes: pathlib.Path, url: str = "") -> subprocess.Popen[bytes]:
        """Serves an agent of agents.py in another process."""
        command = [sys.executable, str(HERE / "agents.py"), agent, str(notes)]
        process = subprocess.Popen(command, env=self.env(url), stderr=subprocess.DEVNULL)

        def end() -> None:
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.kill()
            process.wait()
        self.addCleanup(end)
        return process

    def notes(self) -> pathlib.Path:
        """A file in which agents of other processes write lines."""
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        path = pathlib.Path(folder.name) / "notes"
        path.touch()
        return path

    def done(self, run: Run) -> str:
        """The reply of a run, once it has completed."""
        run.wait(timeout=PATIENCE)
        self.assertEqual(run.status, "completed", run.error)
        return run.reply or ""

    def kinds(self, run: Run) -> list[str]:
        """The kinds of all entries of a run that has ended."""
        return [e.kind for e in run.follow(timeout=PATIENCE) if e.kind not in ("delta", "gap")]

    def approve(self, run: Run, verdict: Any = "approve", **more: Any) -> None:
        """Decides the open ticket of a run, once it has one."""
        [ticket] = until("a ticket", lambda: list(self.mailroom.asks(run=run.id)))
        self.mailroom.decide(ticket, verdict, **more)
