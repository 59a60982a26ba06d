"""Answers that are lost on the way: what was asked for happens once."""

from __future__ import annotations

import unittest

from fixture import PATIENCE, Case, until
from mailroom import Mailroom, Session
from proxy import Proxy


class TestLost(Case):
    def setUp(self) -> None:
        super().setUp()
        self.proxy = Proxy(self.server.port)
        self.addCleanup(self.proxy.close)

    def lossy(self, agent: str, part: str) -> str:
        """Serves an agent through the proxy, which loses an answer, and checks that all happened once."""
        calls: list[str] = []

        def handle(s: Session) -> str:
            if s.text == "first":
                return "first"
            s.effect("call", lambda: calls.append("x") or "y")
            s.write("text ")
            s.checkpoint(1)
            s.write("more ")
            return "end"
        self.serve(agent, handle, url=self.proxy.url, slots=1)
        self.done(self.mailroom.send("first", agent=agent))
        self.proxy.lose(part)
        run = self.mailroom.send("x", agent=agent)
        self.assertEqual(self.done(run), "more end")
        self.assertTrue(self.proxy.lost.wait(PATIENCE))
        self.assertEqual((calls, run.data["attempt"]), (["x"], 1))
        return run.id

    def test_a_lost_answer_to_a_claim(self) -> None:
        self.lossy("lossy-claim", "POST /v1/claims HTTP")

    def test_a_worker_that_leaves_gives_back_a_claim_whose_answer_was_lost(self) -> None:
        """The run may be started once only. It starts at the next worker, because the first one never had it."""
        started: list[str] = []
        worker = self.serve("left", lambda s: started.append("first"), url=self.proxy.url)
        self.proxy.lose("POST /v1/claims HTTP")
        body = {"text": "x", "agent": "left", "max_crashes": 0}
        run = self.mailroom.run(self.mailroom.transport.call("POST", "/v1/messages", body)["run"])
        self.assertTrue(self.proxy.lost.wait(PATIENCE))
        worker.stop()  # while it waits to ask again
        until("it has left", lambda: run.refresh().status != "running")
        self.assertEqual((run.status, run.data["crashes"], started), ("queued", 0, []))
        self.serve("left", lambda s: "second")
        self.assertEqual(self.done(run), "second")
        self.assertEqual((run.data["attempt"], run.data["crashes"]), (2, 0))

    def test_a_lost_answer_to_a_step(self) -> None:
        self.lossy("lossy-step", "/entries HTTP")

    def test_a_lost_answer_to_a_settle(self) -> None:
        self.lossy("lossy-settle", "/settle HTTP")

    def test_a_lost_answer_to_a_send_is_one_run(self) -> None:
        self.proxy.lose("POST /v1/messages")
        run = Mailroom(self.proxy.url, self.server.token).send("once", agent="echo", thread="sent-once")
        self.assertTrue(self.proxy.lost.is_set())
        self.assertEqual(run.sent["disposition"], "duplicate")
        self.assertEqual(len(list(self.mailroom.runs("thread:sent-once"))), 1)

    def test_a_lost_answer_to_a_decision(self) -> None:
        self.serve("decided", lambda s: str(bool(s.approval("go", prompt="Go?"))))
        run = self.mailroom.send("x", agent="decided").wait(until_asked=True, timeout=PATIENCE)
        [ticket] = self.mailroom.asks(run=run.id)
        self.proxy.lose("POST /v1/tickets/")
        self.assertEqual(Mailroom(self.proxy.url, self.server.token).decide(ticket, "approve").decision, "approve")
        self.assertTrue(self.proxy.lost.is_set())
        self.assertEqual(self.done(run), "True")

    def test_a_stream_that_breaks_goes_on_after_the_last_entry(self) -> None:
        self.serve("asks", lambda s: str(bool(s.approval("go", prompt="Go?"))))
        run = Mailroom(self.proxy.url, self.server.token).send("x", agent="asks")
        seqs = []
        for event in run.follow(timeout=PATIENCE):
            if event.kind == "delta" or event.kind == "gap":
                continue
            seqs.append(event.seq)
            if event.kind == "run.waiting":
                self.proxy.lose("stream")  # of the next connection
                self.approve(run)
        self.assertEqual(seqs, sorted(set(seqs)))
        self.assertEqual((run.status, run.reply), ("completed", "True"))


if __name__ == "__main__":
    unittest.main()
