"""Workers and servers that are killed, frozen, restarted and drained."""

from __future__ import annotations

import signal
import threading
import unittest
from pathlib import Path
from typing import Any
from unittest import mock

from fixture import PATIENCE, Case, Server, until
from mailroom import MailroomError, Overdue, Session


def lines(notes: Path, word: str) -> list[str]:
    return [line for line in notes.read_text().splitlines() if line.startswith(word)]


class TestCrash(Case):
    def setUp(self) -> None:
        self.server = Server()  # of its own: tests kill it
        self.addCleanup(self.server.close)
        super().setUp()

    def test_kill_9_inside_an_effect_opens_a_ticket_and_another_worker_goes_on(self) -> None:
        notes = self.notes()
        first = self.spawn("pay", notes)
        self.registered("pay")
        run = self.mailroom.send("x", agent="pay")
        until("the effect is called", lambda: lines(notes, "paid"))
        first.kill()
        first.wait()
        self.spawn("pay", notes)
        self.approve(run, "answer", answer="found the receipt")
        self.assertEqual(self.done(run), "got found the receipt")
        self.assertEqual(len(lines(notes, "paid")), 1)
        kinds = [k for k in self.kinds(run) if k.startswith("effect.")]
        self.assertEqual(kinds, ["effect.intended", "effect.unknown", "effect.settled"])

    def test_a_worker_that_is_stopped_past_its_lease_is_fenced(self) -> None:
        notes = self.notes()
        frozen = self.spawn("slow", notes)
        self.registered("slow")
        run = self.mailroom.send("x", agent="slow")
        until("the first effect", lambda: lines(notes, "first"))
        frozen.send_signal(signal.SIGSTOP)
        second = self.spawn("slow", notes)
        until("the second worker has the run", lambda: run.refresh().data["attempt"] == 2)
        notes.with_name("go").touch()
        self.assertEqual(self.done(run), f"one, done by {second.pid}")
        frozen.send_signal(signal.SIGCONT)
        self.registered("slow", 2)  # it registers again, and writes nothing for the run that it has lost
        self.assertEqual(len(lines(notes, "first")), 1)
        again = self.mailroom.send("y", agent="slow", thread=run.thread)
        self.assertRegex(self.done(again), "^one, done by")
        texts = [m.text for m in self.mailroom.messages(run.thread) if m.run == run.id and m.role == "assistant"]
        self.assertEqual(texts, [f"one, done by {second.pid}"])

    def test_a_server_that_is_killed_in_a_run_costs_nothing(self) -> None:
        calls: list[int] = []

        def handle(s: Session) -> str:
            s.effect("before", lambda: calls.append(1) or "x")
            s.write("begun, ")
            self.server.kill()
            self.server.start()
            s.checkpoint("after")
            return "done"
        self.serve("patient", handle)
        run = self.mailroom.send("x", agent="patient")
        self.done(run)
        texts = [m.text for m in self.mailroom.messages(run.thread) if m.role == "assistant"]
        self.assertEqual(texts, ["done", "begun, "])
        self.assertEqual((calls, run.data["attempt"]), ([1], 1))

    def test_an_outage_longer_than_the_lease_ends_the_handler_and_the_worker_goes_on(self) -> None:
        begun, ended = threading.Event(), threading.Event()

        def handle(s: Session) -> str:
            if s.attempt > 1:
                return "went on"
            begun.set()
            until("the attempt has to end", lambda: s.stopping)
            ended.set()
            return "too late"
        self.serve("cutoff", handle)
        run = self.mailroom.send("x", agent="cutoff")
        self.assertTrue(begun.wait(PATIENCE))
        self.server.kill()
        self.assertTrue(ended.wait(PATIENCE))
        self.server.start()
        self.assertEqual(self.done(run), "went on")

    def test_sigterm_lets_a_run_finish_and_releases_one_that_does_not(self) -> None:
        notes = self.notes()
        worker = self.spawn("slow", notes)
        self.registered("slow")
        run = self.mailroom.send("x", agent="slow")
        until("the first effect", lambda: lines(notes, "first"))
        worker.send_signal(signal.SIGTERM)
        run_released = until("the run is released", lambda: run.refresh().status == "queued")
        self.assertTrue(run_released)
        self.assertEqual(run.data["crashes"], 0)
        self.assertEqual(worker.wait(PATIENCE), 0)
        notes.with_name("go").touch()
        other = self.spawn("slow", notes)
        self.assertEqual(self.done(run), f"one, done by {other.pid}")
        self.assertEqual(len(lines(notes, "first")), 1)

    def test_sigterm_waits_for_a_run_that_finishes(self) -> None:
        notes = self.notes()
        worker = self.spawn("slow", notes)
        self.registered("slow")
        run = self.mailroom.send("x", agent="slow")
        until("the first effect", lambda: lines(notes, "first"))
        notes.with_name("go").touch()
        worker.send_signal(signal.SIGTERM)
        self.assertEqual(worker.wait(PATIENCE), 0)
        self.assertEqual(self.done(run), f"one, done by {worker.pid}")

    def test_sigterm_ends_a_worker_that_has_lost_its_server(self) -> None:
        workers = []
        for agent in ("stuck", "stuck-async"):
            notes = self.notes()
            workers.append(self.spawn(agent, notes))
            self.registered(agent)
            self.mailroom.send("x", agent=agent)
            until("the handler has begun", lambda: lines(notes, "begun"))
            notes.with_name("go").touch()
            self.server.kill()
            workers[-1].send_signal(signal.SIGTERM)
            self.assertEqual(workers[-1].wait(PATIENCE), 0)
            self.server.start()

    def test_a_handler_may_close_standard_output_and_error(self) -> None:
        self.spawn("closes", self.notes())
        self.registered("closes")
        for text in ("one", "two"):
            self.assertEqual(self.done(self.mailroom.send(text, agent="closes")), f"closed, {text}")


class TestDeadline(Case):
    def setUp(self) -> None:
        self.server = Server('run_deadline = "1s"\n')
        self.addCleanup(self.server.close)
        super().setUp()

    def test_an_attempt_that_exceeds_its_deadline_fails_and_is_retried(self) -> None:
        seen: list[str] = []

        def handle(s: Session) -> str:
            if s.attempt > 1:
                return "in time"
            until("the attempt has to end", lambda: s.stopping)
            try:
                s.checkpoint(1)
            except Overdue as late:
                seen.append(str(late))
                raise
            return "too late"
        self.serve("late", handle)
        run = self.mailroom.send("x", agent="late")
        self.assertEqual(self.done(run), "in time")
        self.assertRegex(seen[0], "took longer than")
        self.assertEqual(run.data["failures"], 1)

    def test_an_attempt_that_asks_for_time_goes_on_after_its_first_deadline(self) -> None:
        passed = threading.Event()  # the deadline of an attempt that began later and asked for nothing

        def handle(s: Session) -> str:
            if s.text == "short":
                until("the attempt has to end", lambda: s.stopping)
                passed.set()
                return ""
            s.write("one message")
            if s.text == "step":
                s.step("long", extend=3600)
            else:
                s.extend(3600)
            self.mailroom.send("short", agent="extends", max_attempts=1)
            passed.wait(PATIENCE)
            passed.clear()
            s.checkpoint(1)
            return f" in attempt {s.attempt}"
        self.serve("extends", handle)
        run = self.mailroom.send("extend", agent="extends")
        self.assertEqual(self.done(run), " in attempt 1")
        texts = [m.text for m in self.mailroom.messages(run.thread) if m.role == "assistant"]
        self.assertEqual(texts, [" in attempt 1", "one message"])
        self.assertEqual(self.done(self.mailroom.send("step", agent="extends")), " in attempt 1")

    def test_an_older_server_takes_a_step_without_the_time_that_it_asks_for(self) -> None:
        def handle(s: Session) -> str:
            s.step("long", extend=3600, checkpoint="kept")
            try:
                s.extend(-1)
            except MailroomError as err:
                return err.code
            return ""
        worker = self.serve("older-extends", handle)
        send, refused = worker.transport.once, []

        def once(method: str, path: str, body: Any = None, **more: Any) -> Any:
            if path.endswith("/entries") and "extend" in body["step"]:
                refused.append(body["number"])
                raise MailroomError("invalid", "body.step.extend: unknown field", places=("body.step.extend",))
            return send(method, path, body, **more)
        with mock.patch.object(worker.transport, "once", once):
            run = self.mailroom.send("x", agent="older-extends")
            self.assertEqual((self.done(run), refused), ("invalid", [1]))


if __name__ == "__main__":
    unittest.main()
