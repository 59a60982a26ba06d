"""What a client does, and what it says when it cannot."""

from __future__ import annotations

import http.server
import os
import subprocess
import sys
import threading
import traceback
import unittest
from typing import Any
from unittest import mock

from fixture import PATIENCE, Case
from mailroom import Mailroom, MailroomError, Session, Worker, effect
from mailroom.jsontext import canonical, clean
from mailroom.transport import backoff


class TestClient(Case):
    def test_the_address_and_the_token_come_from_the_environment(self) -> None:
        env = {"MAILROOM_URL": self.server.url, "MAILROOM_TOKEN": self.server.token, "http_proxy": "http://127.0.0.1:1"}
        with mock.patch.dict(os.environ, env):
            self.assertEqual(Mailroom().send("hello", agent="echo").wait(timeout=PATIENCE).reply, "hello")

    def test_the_same_key_is_one_run(self) -> None:
        first = self.mailroom.send("x", agent="echo", key="once")
        self.assertEqual(self.mailroom.send("x", agent="echo", key="once").id, first.id)

    def test_lists_go_on_over_pages(self) -> None:
        for n in range(120):
            self.mailroom.send("x", agent="echo", thread=f"page-{n}")
        self.assertEqual(len(list(self.mailroom.runs("thread:page-*"))), 120)
        self.assertEqual(len({t.id for t in self.mailroom.threads() if t.id.startswith("page-")}), 120)

    def test_a_queued_run_is_cancelled(self) -> None:
        run = self.mailroom.send("x", agent="echo", not_before="2099-01-01T00:00:00Z")
        self.assertEqual(self.mailroom.cancel(run).status, "cancelled")

    def test_an_approval_needs_what_was_shown(self) -> None:
        self.serve("shown", lambda s: str(bool(s.approval("a", prompt="A?"))))
        run = self.mailroom.send("x", agent="shown").wait(until_asked=True, timeout=PATIENCE)
        [ticket] = self.mailroom.asks(run=run.id)
        with self.assertRaises(MailroomError):
            self.mailroom.decide(type(ticket)(**{**vars(ticket), "digest": "0" * 64}), "approve")
        self.assertEqual(self.mailroom.decide(ticket, "approve").decision, "approve")
        self.assertEqual(self.done(run), "True")

    def test_errors_say_what_to_do(self) -> None:
        def says(pattern: str, url: str, token: str = "x") -> None:
            worker = Worker(url, token)
            worker.agent("a")(lambda s: None)
            with self.assertRaisesRegex(MailroomError, pattern):
                Mailroom(url, token).run("none")
            with self.assertRaisesRegex(MailroomError, pattern):
                worker.run()
        says("mailroom token create", self.server.url, "wrong")
        says("MAILROOM_TOKEN", self.server.url, "")
        with self.assertRaisesRegex(MailroomError, "check MAILROOM_TOKEN"):
            Mailroom(self.server.url, "a b")
        with self.assertRaisesRegex(MailroomError, "is not a server's address"):
            Mailroom("localhost:8420")
        other = http.server.ThreadingHTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler)
        self.addCleanup(other.server_close)
        self.addCleanup(other.shutdown)
        other.RequestHandlerClass.log_message = lambda *a: None  # type: ignore[method-assign]
        threading.Thread(target=other.serve_forever, daemon=True).start()
        says("older than this package|MAILROOM_URL", f"http://127.0.0.1:{other.server_port}")

    def test_a_server_that_is_older_than_the_package_is_refused_in_one_sentence(self) -> None:
        worker = Worker(self.server.url, self.server.token)
        worker.agent("early")(lambda s: None)
        once = worker.transport.once

        def old(method: str, path: str, body: object = None, **more: Any) -> Any:
            found = once(method, path, body, **more)
            self.assertGreaterEqual(found.pop("contract"), 1)
            return found
        worker.transport.once = old  # type: ignore[method-assign]
        with self.assertRaisesRegex(MailroomError, "^the server at http[^ ]* is older than this package; update the "
                                    "server, or install an older mailroom package .incompatible.$"):
            worker.run()

    def test_a_server_that_is_newer_than_the_package_serves_it(self) -> None:
        worker = Worker(self.server.url, self.server.token)
        worker.agent("newer")(lambda s: f"read {s.text}")
        once = worker.transport.once

        def new(method: str, path: str, body: object = None, **more: Any) -> Any:
            found = once(method, path, body, **more)
            if path == "/v1/claims":
                found["contract"] = 99
                found["claims"] = [{**claim, "future": [1]} for claim in found["claims"]]
            return {**found, "future": {}} if isinstance(found, dict) else found
        worker.transport.once = new  # type: ignore[method-assign]
        thread = threading.Thread(target=worker.run)
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(worker.stop)
        self.registered("newer")
        self.assertEqual(self.done(self.mailroom.send("this", agent="newer")), "read this")
    def test_a_password_in_the_address_is_refused_and_never_shown(self) -> None:
        for url in ("http://me:s3cret@127.0.0.1:8420", "http://me:s3/cret@127.0.0.1:8420", "me:s3cret@127.0.0.1:8420",
                    "htp://me:s3cret@127.0.0.1", "http://[::1/s3cret@", "http://s3cret@127.0.0.1:8420"):
            for made in (Mailroom, Worker):
                with mock.patch.dict(os.environ, {"MAILROOM_URL": url}), self.assertRaises(MailroomError) as refused:
                    made()
                self.assertRegex(str(refused.exception), "^[^\n]*no user name or password[^\n]*MAILROOM_TOKEN[^\n]*$")
                self.assertNotRegex("".join(traceback.format_exception(refused.exception)), "s3|cret@")

    def test_a_query_in_the_address_is_not_shown(self) -> None:
        client = Mailroom("http://127.0.0.1:1?token=s3cret", "x")
        with mock.patch("time.sleep"), self.assertRaises(MailroomError) as failed:
            client.run("none")
        self.assertNotIn("s3cret", str(failed.exception))
        for url in ("http://[::1", "http://127.0.0.1:port", "htp://127.0.0.1?token=s3cret"):
            with self.assertRaisesRegex(MailroomError, "^(?!.*s3cret).*is not a server's address"):
                Mailroom(url)

    def test_an_agent_that_no_worker_serves_has_a_code_of_its_own(self) -> None:
        with self.assertRaisesRegex(MailroomError, 'unknown agent "nosuch".*start the worker that serves it') as caught:
            self.mailroom.send("x", agent="nosuch")
        self.assertEqual((caught.exception.code, caught.exception.status), ("unserved", 422))

    def test_a_worker_without_an_agent_and_an_effect_without_a_run_are_refused(self) -> None:
        with self.assertRaisesRegex(ValueError, "no agent"):
            Worker(self.server.url, self.server.token).run()
        with self.assertRaisesRegex(RuntimeError, "runs no handler"):
            effect(lambda: 1)()

    def test_an_answer_of_another_form_ends_the_worker(self) -> None:
        worker = Worker(self.server.url, self.server.token)
        worker.agent("formless")(lambda s: None)
        answer = worker.transport.once

        def once(method: str, path: str, body: Any = None, **more: Any) -> Any:
            return {} if body and body.get("max") else answer(method, path, body, **more)
        with mock.patch.object(worker.transport, "once", once):
            self.assertRaisesRegex(MailroomError, "another form", worker.run)

    def test_a_session_refuses_a_forked_child(self) -> None:
        def handle(s: Session) -> str:
            read, write = os.pipe()
            if (child := os.fork()) == 0:
                try:
                    s.checkpoint(1)
                except RuntimeError as err:
                    os.write(write, str(err).encode())
                return "from the child"
            os.close(write)
            os.waitpid(child, 0)
            with os.fdopen(read) as pipe:
                return pipe.read()
        self.serve("forks", handle)
        self.assertRegex(self.done(self.mailroom.send("x", agent="forks")), "forked child")


    def test_a_client_that_is_let_go_leaves_no_socket_open(self) -> None:
        program = '''
import gc, threading
from mailroom import Mailroom

def use(mailroom, text):
    run = mailroom.send(text, agent="echo")
    next(iter(run.follow()))  # and lets the stream go
    run.wait()

def in_threads(mailroom):
    threads = [threading.Thread(target=use, args=(mailroom, "hello")) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

use(Mailroom(), "hello")
in_threads(Mailroom())
with Mailroom() as mailroom:
    use(mailroom, "hello")
    assert mailroom.transport._kept.one is not None
assert mailroom.transport._kept.one is None
cycle = [Mailroom()]
cycle.append(cycle)
use(cycle[0], "hello")
del cycle
gc.collect()
until_the_end = Mailroom()
use(until_the_end, "hello")
'''
        env = {**self.env(), "PYTHONPATH": os.pathsep.join(sys.path)}
        ended = subprocess.run([sys.executable, "-X", "dev", "-c", program], env=env, capture_output=True, text=True)
        self.assertEqual((ended.returncode, ended.stderr), (0, ""))


class TestText(unittest.TestCase):
    def test_equal_values_have_equal_text(self) -> None:
        self.assertEqual(canonical({"b": (1, 2), "a": "ü\ud83d\ude00"}), '{"a":"ü😀","b":[1,2]}')
        for bad in (float("nan"), {1}, {1: 1, "a": 2}):
            with self.assertRaisesRegex(MailroomError, "cannot be encoded"):
                canonical(bad)

    def test_pauses_grow_to_a_bound_differ_and_are_no_shorter_than_the_server_asks(self) -> None:
        passing = MailroomError("unavailable", "no answer")
        for tries, full in ((0, 0.1), (3, 0.8), (60, 3.0)):
            pauses = {backoff(tries, passing) for _ in range(20)}
            self.assertGreater(len(pauses), 1)
            self.assertTrue(all(full / 2 <= pause <= full for pause in pauses), pauses)
        self.assertEqual(backoff(0, MailroomError("rate_limited", "later", retry_after=7)), 7)

    def test_what_utf_8_cannot_encode_is_replaced(self) -> None:
        self.assertEqual(clean("a\ud800b\x00c"), "a\ufffdb\ufffdc")


if __name__ == "__main__":
    unittest.main()
