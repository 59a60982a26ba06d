"""What the server refuses, or answers with faults of its own: the attempt ends, and says why."""

from __future__ import annotations

import os
import threading
import time
import unittest
from typing import Any
from unittest import mock

import mailroom.worker
from fixture import PATIENCE, Case, until
from mailroom import AsyncSession, LeaseLost, Mailroom, MailroomError, Run, Session, Worker
from mailroom.attempt import Attempt
from mailroom.logs import Log
from proxy import Proxy


class TestRefused(Case):
    def setUp(self) -> None:
        super().setUp()
        self.proxy = Proxy(self.server.port)
        self.addCleanup(self.proxy.close)

    def failed(self, run: Run, message: str, cls: str = "exhausted") -> None:
        """Waits until a run, which is not retried, has failed; exhausted: with a transient failure."""
        run.wait(timeout=PATIENCE)
        self.assertEqual(run.status, "failed")
        self.assertRegex((run.error or {})["message"], message)
        self.assertEqual((run.error or {})["class"], cls)

    def test_a_settle_that_is_refused_becomes_a_failure(self) -> None:
        self.serve("unsettled", lambda s: "x", url=self.proxy.url)
        self.proxy.refuse("/settle HTTP", 422, "invalid", "no such end")
        run = self.mailroom.send("x", agent="unsettled", max_attempts=1)
        self.failed(run, "settle refused: no such end")

    def test_a_settle_whose_text_is_refused_is_made_without_it(self) -> None:
        self.serve("textless", lambda s: "bad text", url=self.proxy.url)
        self.proxy.refuse("bad text", 422, "invalid", "no such text", times=100)
        self.failed(self.mailroom.send("x", agent="textless", max_attempts=1), "settle refused: no such text")

    def test_a_claim_that_cannot_be_settled_is_given_back(self) -> None:
        for agent, status, code, times in (("back", 422, "invalid", 3), ("faulty-back", 500, "internal", 15)):
            with self.subTest(code):
                self.serve(agent, lambda s: f"attempt {s.attempt}", url=self.proxy.url)
                self.proxy.refuse("/settle HTTP", status, code, times=times)
                run = self.mailroom.send("x", agent=agent)
                self.assertEqual(self.done(run), "attempt 2")
                self.assertEqual((run.data["crashes"], run.data["failures"]), (0, 0))

    def test_a_handler_that_is_forced_and_cannot_be_settled_gives_its_claim_back(self) -> None:
        begun, go = threading.Event(), threading.Event()

        def handle(s: Session) -> str:
            if s.attempt == 1:
                begun.set()
                go.wait()
            return "went on"
        self.serve("deaf-back", handle, url=self.proxy.url, grace=0.1)
        self.addCleanup(go.set)
        self.proxy.refuse("/settle HTTP", 422, "invalid", times=3)
        run = self.mailroom.send("x", agent="deaf-back")
        self.assertTrue(begun.wait(PATIENCE))
        self.mailroom.cancel(run)
        self.assertEqual(run.wait(timeout=PATIENCE).status, "cancelled")

    def test_faults_of_the_server_end_the_attempt_and_not_only_for_code_that_looks(self) -> None:
        swallowed: list[BaseException] = []

        def handle(s: Session) -> str:
            try:
                s.checkpoint(1)
            except Exception as err:
                swallowed.append(err)
            return "went on"

        async def handle_async(s: AsyncSession) -> str:
            try:
                await s.checkpoint(1)
            except Exception as err:
                swallowed.append(err)
            return "went on"
        for agent, handler in (("faulty", handle), ("faulty-async", handle_async)):
            with self.subTest(agent), self.assertLogs("mailroom", "WARNING") as logs:
                worker = self.serve(agent, handler, url=self.proxy.url)
                self.proxy.refuse("/entries HTTP", 500, "internal", "the disk is full", times=5)
                self.failed(self.mailroom.send("x", agent=agent, max_attempts=1), "the disk is full")
                until("the attempt has ended", lambda: not worker._held)
            self.assertEqual(swallowed, [])
            self.assertEqual(sum("the disk is full" in line for line in logs.output), 1, logs.output)

    def test_a_step_that_the_server_has_and_answers_with_faults_is_a_failure_once(self) -> None:
        def handle(s: Session) -> None:
            s.write("in the step")
            s.checkpoint("kept")
        worker = self.serve("half-done", handle)
        send = worker.transport.once

        def once(method: str, path: str, body: Any = None, **more: Any) -> Any:
            found = send(method, path, body, **more)
            if path.endswith("/entries"):
                raise MailroomError("internal", "broken")
            return found
        with mock.patch.object(worker.transport, "once", once):
            run = self.mailroom.send("x", agent="half-done", max_attempts=1)
            self.failed(run, "broken")
        self.assertEqual(run.data["attempt"], 1)
        texts = [m.text for m in self.mailroom.messages(run.thread) if m.role == "assistant"]
        self.assertEqual(texts, ["in the step"])

    def test_a_client_does_not_repeat_faults_for_ever(self) -> None:
        client = Mailroom(self.proxy.url, self.server.token)
        run = client.send("x", agent="echo")
        self.proxy.refuse("/stream", 500, "internal", "broken", times=5)
        with self.assertRaisesRegex(MailroomError, "broken"):
            list(run.follow(timeout=PATIENCE))

    def test_a_worker_that_cannot_register_for_faults_ends(self) -> None:
        worker = Worker(self.proxy.url, self.server.token)
        worker.agent("unregistered")(lambda s: None)
        self.proxy.refuse("POST /v1/claims HTTP", 500, "internal", "broken", times=5)
        with mock.patch.object(mailroom.worker, "PAUSE", 0.01), self.assertRaisesRegex(MailroomError, "broken"):
            worker.run()

    def test_a_claim_that_fails_is_repeated_and_logged(self) -> None:
        with self.assertLogs("mailroom", "ERROR") as logs:
            self.serve("claimed", lambda s: "in the end", url=self.proxy.url)
            self.done(self.mailroom.send("x", agent="claimed"))
            self.proxy.refuse('"round":', 500, "internal", "broken", times=2)
            self.assertEqual(self.done(self.mailroom.send("x", agent="claimed")), "in the end")
            self.done(self.mailroom.send("x", agent="claimed"))
        self.assertIn("claim failed", logs.output[0])

    def test_text_that_is_refused_fails_the_attempt_with_the_reason(self) -> None:
        def handle(s: Session) -> str:
            s.write("text that waits")
            until("the attempt has to end", lambda: s.stopping)
            return "more"

        async def handle_async(s: AsyncSession) -> str:
            await s.write("text that waits")
            while not s.stopping:
                await s.write(".")
            return "more"
        for agent, handler in (("refused-text", handle), ("refused-text-async", handle_async)):
            with self.subTest(agent):
                self.serve(agent, handler, url=self.proxy.url)
                self.proxy.refuse("/deltas HTTP", 422, "invalid", "no such text")
                self.failed(self.mailroom.send("x", agent=agent, max_attempts=1), "no such text", "permanent")

    def test_much_text_that_is_refused_fails_the_attempt_although_the_handler_goes_on(self) -> None:
        def handle(s: Session) -> None:
            for _ in range(3):
                try:
                    s.write("x" * 300_000)
                except Exception:
                    pass
        self.serve("refused-much", handle, url=self.proxy.url)
        self.proxy.refuse("/deltas HTTP", 422, "invalid", "no such text", times=100)
        self.failed(self.mailroom.send("x", agent="refused-much", max_attempts=1), "no such text", "permanent")

    def test_what_is_only_shown_and_refused_costs_nothing_else(self) -> None:
        def handle(s: Session) -> str:
            s.reasoning("hm")
            until("it was refused", lambda: self.proxy.refused)
            s.write("text")
            return " and more"
        self.serve("unshown", handle, url=self.proxy.url)
        self.proxy.refuse('"channel":"thinking"', 422, "invalid")
        self.assertEqual(self.done(self.mailroom.send("x", agent="unshown")), "text and more")

    def test_text_that_goes_out_slowly_delays_no_other_attempt(self) -> None:
        def handle(s: Session) -> str:
            if s.text == "slow":
                s.write("slow text")
                until("the other run has ended", lambda: other.is_set())
            else:
                s.write("quick text")
                until("its text was seen", lambda: seen.is_set())
            return ""
        other, seen = threading.Event(), threading.Event()
        self.serve("flushes", handle, url=self.proxy.url)
        self.proxy.hold("slow text")
        slow = self.mailroom.send("slow", agent="flushes")
        until("its text is held", self.proxy.waiting)
        quick = self.mailroom.send("quick", agent="flushes")
        for event in quick.follow(timeout=PATIENCE):
            if event.kind == "delta":
                self.assertEqual(self.proxy.waiting(), 1)  # its request has not ended in the meantime
                seen.set()
        other.set()
        self.proxy.go()
        self.assertEqual(self.done(slow), "slow text")

    def test_a_handler_writes_while_its_text_goes_out(self) -> None:
        def handle(s: Session) -> str:
            s.write("held")
            until("its text is held", self.proxy.waiting)
            s.write(", and more")
            self.assertEqual(self.proxy.waiting(), 1)
            self.proxy.go()
            return ""
        self.serve("writes-on", handle, url=self.proxy.url)
        self.proxy.hold("held")
        self.assertEqual(self.done(self.mailroom.send("x", agent="writes-on")), "held, and more")


class TestToken(Case):
    def token(self, name: str, *scopes: str) -> str:
        made = self.mailroom.transport.call("POST", "/v1/tokens", {"name": name, "scopes": list(scopes)})
        return str(made["token"])

    def test_a_token_that_is_revoked_in_a_handler_ends_its_attempt_and_the_worker(self) -> None:
        begun, revoked, seen = threading.Event(), threading.Event(), []

        def handle(s: Session) -> None:
            begun.set()
            revoked.wait()
            try:
                while True:
                    try:
                        s.checkpoint(1)
                    except Exception:
                        pass
            except LeaseLost as lost:
                seen.append(lost)
                raise
        worker = Worker(self.server.url, self.token("short", "work"), grace=1)
        worker.agent("revoked")(handle)
        raised: list[BaseException] = []

        def serve() -> None:
            try:
                worker.run()
            except BaseException as err:
                raised.append(err)
        thread = threading.Thread(target=serve)
        thread.start()
        self.addCleanup(worker.stop)
        self.registered("revoked")
        self.mailroom.send("x", agent="revoked")
        self.assertTrue(begun.wait(PATIENCE))
        self.mailroom.transport.call("DELETE", "/v1/tokens/short")
        revoked.set()
        thread.join(PATIENCE)
        self.assertFalse(thread.is_alive())
        self.assertEqual(len(seen), 1)
        self.assertRegex(str(raised[0]), r"make a token with `mailroom token create.*\(unauthenticated\)$")
        self.assertNotIn("\n", str(raised[0]))

    def test_a_token_without_the_scope_is_told_so_in_one_sentence(self) -> None:
        worker = Worker(self.server.url, self.token("reader", "read"))
        worker.agent("scopeless")(lambda s: None)
        with self.assertRaisesRegex(MailroomError, r"^[^\n]*work[^\n]*mailroom token create[^\n]*$"):
            worker.run()


class TestLastAttempt(Case):
    def test_the_rule_is_that_of_the_server(self) -> None:
        for crashes, most, lost, last in (
                (0, None, 0, False), (1, None, 0, False), (2, None, 0, True), (2, 3, 0, True), (0, 1, 0, False),
                (1, 1, 0, True), (0, 0, 0, False), (1, 0, 0, True), (0, 3, 18, False), (0, 3, 19, True)):
            run = {"id": "r", "thread": "t", "agent": "a", "attempt": 1, "steps": 0, "crashes": crashes,
                   "max_crashes": most}
            claim = {"claim": "r:1", "run": run, "lost": lost}
            made = Attempt(self.mailroom.transport, claim, Log(), lambda err: None)
            self.assertEqual(made.last, last, (crashes, most, lost))

    def test_one_run_on_its_last_attempt_runs_at_a_time(self) -> None:
        """Also while its handler does not return after its attempt has ended. Then the waiting claim is repeated."""
        begun, go, asked = threading.Event(), threading.Event(), []

        def handle(s: Session) -> str:
            begun.set()
            go.wait()
            return ""
        worker = Worker(self.server.url, self.server.token, grace=0.1)
        worker.agent("lasting")(handle)
        send = worker.transport.once

        def once(method: str, path: str, body: Any = None, **more: Any) -> Any:
            if path == "/v1/claims" and body["max"]:
                asked.append((body["round"], body["alone"]))
            found = send(method, path, body, **more)
            if path == "/v1/claims":
                for claim in found["claims"]:
                    claim["run"]["crashes"] = 2
            return found
        self.addCleanup(go.set)
        with mock.patch.object(worker.transport, "once", once):
            thread = threading.Thread(target=worker.run)
            thread.start()
            self.addCleanup(thread.join)
            self.addCleanup(worker.stop)
            self.registered("lasting")
            run = self.mailroom.send("x", agent="lasting")
            self.assertTrue(begun.wait(PATIENCE))
            until("the next claim", lambda: asked[-1] == (2, False))
            self.mailroom.cancel(run)
            run.wait(timeout=PATIENCE)
            until("the attempt has ended", lambda: not worker._held)
            self.assertEqual(asked[-1], (2, False))
            go.set()
            until("the waiting claim is repeated", lambda: asked[-1] == (2, True))
            worker.stop()
            thread.join(PATIENCE)


class TestWaitsOn(Case):
    def test_what_a_handler_waits_for_goes_with_renewals_until_it_writes(self) -> None:
        """An older server of a cluster refuses it, and the lease is renewed all the same."""
        said, refuse = [], [True]

        def handle(s: Session) -> str:
            s.waits_on("cargo\x00 test")
            renewed("what it waits for", lambda: {f"{s.run}:1": "cargo\ufffd test"} in said)
            refuse.clear()
            renewed("an answer", lambda: len(said) > 2)
            for end in (lambda: s.write("x"), lambda: s.reasoning("x"), lambda: s.checkpoint(1)):
                s.waits_on("more")
                renewed("more", lambda: said[-1] == {f"{s.run}:1": "more"})
                end()
                renewed("nothing", lambda: said[-1] is None)
            return "done"

        def renewed(what: str, check: Any) -> None:
            until(what, lambda: worker._renew_now.set() or check())
        worker = Worker(self.server.url, self.server.token)
        worker.agent("waits")(handle)
        send = worker.transport.once

        def once(method: str, path: str, body: Any = None, **more: Any) -> Any:
            if path.endswith("/renew"):
                said.append(body.get("waits_on"))
                if "waits_on" in body and refuse:
                    raise MailroomError("invalid", "body.waits_on: unknown field")
                body = {k: v for k, v in body.items() if k != "waits_on"}
            found = send(method, path, body, **more)
            return {**found, "contract": 3} if path == "/v1/claims" else found
        with mock.patch.object(worker.transport, "once", once):
            thread = threading.Thread(target=worker.run)
            thread.start()
            self.addCleanup(thread.join)
            self.addCleanup(worker.stop)
            self.registered("waits")
            run = self.mailroom.send("x", agent="waits")
            self.assertEqual(self.done(run), "done")
            self.assertEqual(run.data["attempt"], 1)


class TestFork(Case):
    def test_a_forked_child_of_an_async_handler_ends(self) -> None:
        async def handle(s: AsyncSession) -> str:
            if (child := os.fork()) == 0:
                try:
                    await s.checkpoint(1)
                except RuntimeError as err:
                    if "forked child" in str(err):
                        return "from the child"
                os._exit(3)
            end = time.monotonic() + PATIENCE
            while time.monotonic() < end:
                ended, status = os.waitpid(child, os.WNOHANG)
                if ended:
                    return f"child {os.waitstatus_to_exitcode(status)}"
                time.sleep(0.02)
            os.kill(child, 9)
            return "the child did not end"
        self.serve("forks-async", handle)
        self.assertEqual(self.done(self.mailroom.send("x", agent="forks-async")), "child 1")


if __name__ == "__main__":
    unittest.main()
