"""What a handler can do, against a real server."""

from __future__ import annotations

import asyncio
import threading
import unittest
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from fixture import PATIENCE, Case, until
from mailroom import (
    AsyncSession, Failure, Happened, MailroomError, Parked, Session, Stopped, Unknown, effect, effect_key,
)


@effect(name="add {a}")
def add(a: int, b: int = 1) -> int:
    return a + b


@effect
async def twice(n: int) -> int:
    await asyncio.sleep(0)
    return 2 * n


class TestSession(Case):
    def test_an_approval_an_effect_and_streamed_text(self) -> None:
        calls: list[str] = []

        def shout(s: Session) -> None:
            if s.approval("shout", prompt="May I?", action="shout", arguments={"text": s.text}):
                loud = s.effect("upper", lambda: calls.append(effect_key()) or s.text.upper())
                for word in loud.split():
                    s.write(word + " ")

        self.serve("shout", shout)
        run = self.mailroom.send("grüß dich 🙂", agent="shout").wait(until_asked=True, timeout=PATIENCE)
        self.approve(run)
        self.assertEqual(self.done(run), "GRÜSS DICH 🙂 ")
        self.assertEqual(calls, [f"{run.id}/upper"])
        self.assertEqual(self.kinds(run).count("effect.settled"), 1)

    def test_a_denied_approval_is_false_and_has_a_reason(self) -> None:
        def ask(s: Session) -> str:
            a = s.approval("go", prompt="Go?")
            return f"{bool(a)} {a.reason}"
        self.serve("denied", ask)
        run = self.mailroom.send("x", agent="denied")
        self.approve(run, "deny", reason="not today")
        self.assertEqual(self.done(run), "False not today")

    def test_a_question_an_event_and_a_sleep(self) -> None:
        def handle(s: Session) -> str:
            s.sleep("nap", 0.01)
            return f"{s.ask('name', 'Your name?')} at attempt {s.attempt}"
        self.serve("asker", handle)
        run = self.mailroom.send("x", agent="asker")
        self.approve(run, "answer", answer="Änne")
        self.assertEqual(self.done(run), "Änne at attempt 3")

    def test_characters_that_are_split_across_writes_arrive_whole(self) -> None:
        def handle(s: Session) -> None:
            for piece in ("ä", "\ud83d", "\ude42", "ü\ud83d", "x", "\x00", "\udc00"):
                s.write(piece)
        self.serve("split", handle)
        self.assertEqual(self.done(self.mailroom.send("x", agent="split")), "ä🙂ü\ufffdx\ufffd\ufffd")

    def test_text_beyond_the_limit_is_cut_and_said_so(self) -> None:
        text = "ü🙂x" * 450_000  # 7 bytes per 3 characters: 3,150,000 bytes

        def handle(s: Session) -> str:
            s.write(text)
            s.write("nothing follows a cut")
            if s.text == "step":
                s.step("after")
                s.write("another message")
            return ""
        self.serve("long", handle)
        whole = (1 << 20) // 7 * 3
        for input, reply in (("settle", text[:whole + 1]), ("step", "another message")):
            with self.assertLogs("mailroom", "WARNING") as logs:
                run = self.mailroom.send(input, agent="long")
                self.assertEqual(self.done(run), reply)
            self.assertEqual(sum("message cut" in line for line in logs.output), 1, logs.output)
            texts = [m.text for m in self.mailroom.messages(run.thread) if m.role == "assistant"]
            self.assertEqual(texts[-1], text[:whole + 1])

    def test_a_step_ends_the_message_and_a_record_does_not(self) -> None:
        """As in the engine: an effect that settles, a memo, a tool and a send are steps; an intention is none."""
        def handle(s: Session) -> str:
            s.write("a")
            try:
                s.effect("fails", lambda: s.write("b") or 1 / 0)
            except ZeroDivisionError:
                s.write("c")
            s.effect("call", lambda: s.write("d"))
            s.write("e")
            s.memo("memo", lambda: 1)
            s.write("f")
            call = s.tool("search")
            s.write("g")
            s.tool_finished(call)
            s.write("h")
            s.send("note", "hello", agent="echo")
            s.write("i")
            s.state = 1
            return "j"
        self.serve("messages", handle)
        run = self.mailroom.send("x", agent="messages")
        self.assertEqual(self.done(run), "ij")
        entries = [e for e in run.follow(timeout=PATIENCE) if e.kind == "message" and e.body.get("role") == "assistant"]
        got = [(e.body["text"], e.body.get("visibility")) for e in entries]
        public = got[0][1]
        self.assertEqual([text for text, _ in got], ["abcd", "e", "f", "g", "h", "ij"])
        self.assertEqual([v == public for _, v in got], [True, True, False, False, True, True])

    def test_a_steered_message_that_no_step_covers_reaches_the_next_attempt(self) -> None:
        begun = threading.Event()

        def handle(s: Session) -> str:
            begun.set()
            got = until("a steered message", s.steered)
            s.sleep("nap", 0.01)
            return got[0].text
        self.serve("uncovered", handle)
        run = self.mailroom.send("x", agent="uncovered")
        self.assertTrue(begun.wait(PATIENCE))
        self.mailroom.send("to the left", thread=run.thread, mode="steer")
        self.assertEqual(self.done(run), "to the left")

    def test_what_is_too_large_is_refused_before_it_is_sent(self) -> None:
        def handle(s: Session) -> str:
            refused = []
            for attempt in (lambda: s.checkpoint("x" * (1 << 20)), lambda: setattr(s, "state", "x" * (1 << 17)),
                            lambda: s.step(entries=[{"kind": "x.a", "body": {"x": "y" * (1 << 20)}}])):
                try:
                    attempt()
                except MailroomError as err:
                    refused.append(err.code)
            return " ".join(refused)
        self.serve("large", handle)
        self.assertEqual(self.done(self.mailroom.send("x", agent="large")), "too_large too_large too_large")
        with self.assertRaisesRegex(MailroomError, "send a reference"):
            self.mailroom.send("x" * (5 << 20), agent="large")

    def test_what_is_no_json_fails_the_run_and_nothing_is_lost(self) -> None:
        def handle(s: Session) -> str:
            if s.attempt == 1:
                s.effect("before", lambda: "kept")
                if s.text == "checkpoint":
                    s.step(checkpoint={1, 2})
                elif s.text == "state":
                    s.state = float("nan")
                elif s.text == "entry":
                    s.step(entries=[{"kind": "x.a", "body": {"x": object()}}])
                elif s.text == "input":
                    s.effect("bad", lambda: 1, input=object())
                else:
                    s.memo("bad", lambda: object())
            return str(s.effect("before", lambda: "called again"))
        self.serve("no-json", handle)
        for text in ("checkpoint", "state", "entry", "input", "memo"):
            run = self.mailroom.send(text, agent="no-json").wait(timeout=PATIENCE)
            self.assertEqual((run.status, run.data["attempt"], (run.error or {})["class"]), ("failed", 1, "permanent"))
            self.assertIn("cannot be encoded as JSON", (run.error or {})["message"])
            self.mailroom.transport.call("POST", run.path + "/retry", {})
            self.assertEqual(self.done(run), "kept")

    def test_state_and_checkpoint_are_there_in_the_next_attempt_and_run(self) -> None:
        def handle(s: Session) -> str:
            if s.saved is None:
                s.state = {"runs": (s.state or {"runs": 0})["runs"] + 1}
                s.step("saves", checkpoint=[1, 2])
                raise Failure("transient", "once more", retry_after=0.001)
            return f"{s.saved} {s.state}"
        self.serve("stateful", handle)
        run = self.mailroom.send("x", agent="stateful")
        self.assertEqual(self.done(run), "[1, 2] {'runs': 1}")
        again = self.mailroom.send("x", agent="stateful", thread=run.thread)
        self.assertEqual(self.done(again), "[1, 2] {'runs': 2}")

    def test_a_state_without_a_step_is_written_at_the_end_and_at_a_wait(self) -> None:
        def handle(s: Session) -> str:
            if s.attempt == 1:
                s.state = [s.state, "before"]
            s.sleep("nap", 0.01)
            found, s.state = s.state, "after"
            return str(found)
        self.serve("unstepped", handle)
        run = self.mailroom.send("x", agent="unstepped")
        self.assertEqual(self.done(run), "[None, 'before']")
        again = self.mailroom.send("x", agent="unstepped", thread=run.thread)
        self.assertEqual(self.done(again), "['after', 'before']")

    def test_the_text_of_a_message_joins_its_text_parts_which_a_claim_has_once(self) -> None:
        def handle(s: Session) -> str:
            [message] = s.input
            rows = s._attempt.claim["messages"]
            return f"{message.text!r} {s.text == message.text} {[p['type'] for p in message.parts]} {rows[0]['text']!r}"
        self.serve("parts", handle)
        parts = [{"type": "data", "data": {"a": 1}}, {"type": "text", "text": "two"}]
        run = self.mailroom.send("one", agent="parts", parts=parts)
        self.assertEqual(self.done(run), r"'one\ntwo' True ['text', 'data', 'text'] ''")

    def test_a_memo_is_kept_and_has_no_intention(self) -> None:
        calls: list[int] = []

        def handle(s: Session) -> str:
            value = s.memo("model", lambda: calls.append(1) or {"n": len(calls)})
            s.sleep("nap", 0.01)
            return str(value)
        self.serve("memo", handle)
        run = self.mailroom.send("x", agent="memo")
        self.assertEqual(self.done(run), "{'n': 1}")
        self.assertNotIn("effect.intended", self.kinds(run))

    def test_a_memo_under_the_name_of_an_unfinished_effect_is_refused(self) -> None:
        def handle(s: Session) -> str:
            if s.attempt == 1:
                try:
                    s.effect("pay", unknown, idempotent=True)
                except Unknown:
                    s.sleep("nap", 0.01)
            return str(s.memo("pay", lambda: 1))

        def unknown() -> None:
            raise Unknown
        self.serve("memo-pay", handle)
        run = self.mailroom.send("x", agent="memo-pay").wait(timeout=PATIENCE)
        self.assertRegex((run.error or {})["message"], "'pay' is an effect whose outcome is not known, and no memo")

    def test_a_call_inside_one_of_its_name_is_refused(self) -> None:
        def handle(s: Session) -> str:
            if s.text == "memo":
                return str(s.memo("a", lambda: s.memo("a", lambda: 1)))
            return str(s.effect("a", lambda: s.effect("b", lambda: s.effect("a", lambda: 1))))

        async def handle_async(s: AsyncSession) -> str:
            async def inner() -> int:
                [value] = await asyncio.gather(s.effect("a", lambda: 1))
                return value
            if s.text == "memo":
                return str(await s.memo("a", lambda: s.memo("a", lambda: 1)))
            return str(await s.effect("a", inner))
        self.serve("nests", handle)
        self.serve("nests-async", handle_async)
        for agent in ("nests", "nests-async"):
            for text in ("effect", "memo"):
                run = self.mailroom.send(text, agent=agent).wait(timeout=PATIENCE)
                self.assertRegex((run.error or {}).get("message", ""), "'a' is called inside itself")

    def test_an_effect_has_its_key_in_what_it_calls_and_may_be_called_again_later(self) -> None:
        def handle(s: Session) -> str:
            inner = s.effect("outer", lambda: [effect_key(), s.memo("inner", effect_key)])
            return " ".join([*inner, str(s.effect("outer", lambda: 1) == inner)])
        self.serve("keys", handle)
        run = self.mailroom.send("x", agent="keys")
        self.assertEqual(self.done(run), f"{run.id}/outer {run.id}/outer True")

    def test_threads_of_a_handler_call_effects_at_once(self) -> None:
        def handle(s: Session) -> str:
            with ThreadPoolExecutor(8) as pool:
                got = list(pool.map(lambda n: s.effect(f"e{n}", lambda: n), range(16)))
            return str(sum(got))
        self.serve("parallel", handle)
        self.assertEqual(self.done(self.mailroom.send("x", agent="parallel")), "120")

    def test_a_decorated_function_is_an_effect_named_by_its_arguments(self) -> None:
        def handle(s: Session) -> str:
            @s.effect
            def double(n: int) -> int:
                return 2 * n
            return f"{add(1)} {add(2, b=2)} {double(4)} {double(4)}"
        self.serve("decorated", handle)
        run = self.mailroom.send("x", agent="decorated")
        self.assertEqual(self.done(run), "2 4 8 8")
        self.assertEqual(self.kinds(run).count("effect.intended"), 3)

    def test_an_effect_of_unknown_outcome_asks_and_takes_the_answer(self) -> None:
        def handle(s: Session) -> str:
            def call() -> str:
                raise Unknown("timeout")
            return "got " + s.effect("pay", call, input={"amount": 5})
        self.serve("unknown", handle)
        run = self.mailroom.send("x", agent="unknown")
        self.approve(run, "answer", answer="receipt")
        self.assertEqual(self.done(run), "got receipt")

    def test_a_reconciled_effect_is_not_called_again(self) -> None:
        calls: list[int] = []

        def handle(s: Session) -> str:
            def call() -> str:
                calls.append(1)
                raise Unknown("timeout")
            return s.effect("pay", call, reconcile=lambda: Happened("found"))
        self.serve("reconciled", handle)
        self.assertEqual(self.done(self.mailroom.send("x", agent="reconciled")), "found")
        self.assertEqual(len(calls), 1)

    def test_a_value_that_cannot_be_kept_is_not_called_again(self) -> None:
        calls: list[int] = []

        def handle(s: Session) -> str:
            return str(s.effect(s.text, lambda: calls.append(1) or ({1} if s.text == "set" else "x" * (2 << 20))))
        self.serve("unkept", handle)
        for text in ("set", "long"):
            run = self.mailroom.send(text, agent="unkept").wait(timeout=PATIENCE)
            self.assertEqual((run.error or {})["class"], "permanent")
            self.assertIn("could not be kept", (run.error or {})["message"])
        self.assertEqual(len(calls), 2)

    def test_tools_a_step_and_the_log(self) -> None:
        def handle(s: Session) -> str:
            s.tool_arguments("c1", "search", '{"q": "ü"}')
            call = s.tool("search", {"q": "ü"}, call="c1")
            s.tool_finished(call, output={"hits": 2}, summary="2 hits")
            s.reasoning("hm")
            s.write("aside")
            s.step("looked", entries=[{"kind": "x.mine", "body": {"a": 1}}], usage={"input_tokens": 3, "model": "m"},
                   parts=[{"type": "reasoning", "text": "hm"}], aside=True)
            kinds = [e.kind for e in s.log(["tool.started", "tool.finished", "x.mine"])]
            return f"{kinds} {[m.text for m in s.transcript(5)]}"
        self.serve("tools", handle)
        first = self.mailroom.send("one", agent="tools")
        self.assertIn("['tool.started', 'tool.finished', 'x.mine']", self.done(first))
        self.assertIn("'one'", self.done(self.mailroom.send("two", agent="tools", thread=first.thread)))
        self.assertEqual(first.refresh().data["usage"]["input_tokens"], 3)

    def test_a_child_is_called_once_and_its_reply_is_there(self) -> None:
        def parent(s: Session) -> str:
            if s.text == "child":
                return "from the child"
            s.send("note", "hello", agent="echo")
            child = s.call("kid", "child", agent="family")
            return f"{child.status}: {child.reply}"
        self.serve("family", parent)
        self.assertEqual(self.done(self.mailroom.send("x", agent="family")), "completed: from the child")

    def test_a_steered_message_reaches_the_run(self) -> None:
        begun = threading.Event()

        def handle(s: Session) -> str:
            begun.set()
            got = until("a steered message", s.steered)
            return got[0].text
        self.serve("steered", handle)
        run = self.mailroom.send("x", agent="steered")
        self.assertTrue(begun.wait(PATIENCE))
        self.mailroom.send("to the left", thread=run.thread, mode="steer")
        self.assertEqual(self.done(run), "to the left")

    def test_a_handler_that_swallows_parked_is_parked(self) -> None:
        def handle(s: Session) -> str:
            try:
                s.sleep("nap", 0.01)
            except Parked:
                pass
            return f"attempt {s.attempt}"
        self.serve("swallows", handle)
        self.assertEqual(self.done(self.mailroom.send("x", agent="swallows")), "attempt 2")

    def test_except_exception_does_not_swallow_a_stop(self) -> None:
        begun, seen = threading.Event(), []

        def handle(s: Session) -> None:
            begun.set()
            try:
                while True:
                    try:
                        s.write("x")
                    except Exception:
                        pass
            except Stopped as stop:
                seen.append(str(stop))
                raise
        self.serve("stopped", handle)
        run = self.mailroom.send("x", agent="stopped")
        self.assertTrue(begun.wait(PATIENCE))
        self.mailroom.cancel(run)
        self.assertEqual(run.wait(timeout=PATIENCE).status, "cancelled")
        self.assertEqual(len(seen), 1)

    def test_an_effect_whose_error_follows_a_stop_is_unknown(self) -> None:
        begun = threading.Event()

        def handle(s: Session) -> None:
            def call() -> None:
                begun.set()
                until("the attempt has to end", lambda: s.stopping)
                raise ConnectionError("reset")
            s.effect("cut", call)
        self.serve("cut-sync", handle)
        run = self.mailroom.send("x", agent="cut-sync")
        self.assertTrue(begun.wait(PATIENCE))
        self.mailroom.cancel(run)
        self.assertEqual(run.wait(timeout=PATIENCE).status, "cancelled")
        self.assertEqual([k for k in self.kinds(run) if k.startswith("effect.")], ["effect.intended", "effect.unknown"])

    def test_a_handler_that_does_not_stop_is_forced_after_the_grace(self) -> None:
        begun, go = threading.Event(), threading.Event()

        def handle(s: Session) -> None:
            begun.set()
            go.wait()
        self.serve("deaf", handle, grace=0.2)
        self.addCleanup(go.set)
        run = self.mailroom.send("x", agent="deaf")
        self.assertTrue(begun.wait(PATIENCE))
        self.mailroom.cancel(run)
        self.assertEqual(run.wait(timeout=PATIENCE).status, "cancelled")

    def test_what_a_handler_raises_or_returns_becomes_a_failure(self) -> None:
        def handle(s: Session) -> Any:
            if s.text == "dict":
                return {"a": 1}
            if s.text == "exit":
                raise SystemExit(3)
            if s.text == "silent":
                raise Silent
            raise ValueError("\udc00" + "x" * (1 << 21))

        class Silent(Exception):
            def __str__(self) -> str:
                raise RuntimeError("no text")
        self.serve("fails", handle)
        for text, message in (("silent", "Silent, whose text cannot be read"), ("dict", "returned dict"),
                              ("exit", r"sys.exit\(3\)"), ("raise", "ValueError: \ufffdxx")):
            run = self.mailroom.send(text, agent="fails", max_attempts=1).wait(timeout=PATIENCE)
            self.assertEqual(run.status, "failed")
            self.assertRegex((run.error or {})["message"], message)

    def test_a_worker_and_a_submit_say_how_failures_are_retried(self) -> None:
        def handle(s: Session) -> None:
            raise ValueError("no")
        self.serve("twice", handle, retry={"attempts": 2, "first": "1ms", "factor": 1})
        for own, attempts in ((None, 2), ({"attempts": 3, "outage": "1h"}, 3)):
            run = self.mailroom.send("x", agent="twice", retry=own).wait(timeout=PATIENCE)
            row = self.mailroom.transport.call("GET", f"/v1/runs/{run.id}")
            self.assertEqual((row["status"], row["failures"], row["max_attempts"]), ("failed", attempts, attempts))
            self.assertEqual(row["retry"], {"first": "1ms", "most": "10m", "factor": 1, **({"outage": "1h"} if own else {})})


class TestAsync(Case):
    def test_an_effect_that_a_stop_cut_off_is_unknown_and_one_that_ended_is_recorded(self) -> None:
        begun = threading.Event()

        async def handle(s: AsyncSession) -> None:
            async def call() -> str:
                begun.set()
                try:
                    await asyncio.Event().wait()
                except asyncio.CancelledError:
                    if s.text == "ends":
                        return "done"
                    raise
                return ""
            await s.effect("cut", call)
        self.serve("cut", handle)
        for text, last, status in (("is cut", "effect.unknown", "cancelled"), ("ends", "effect.settled", "completed")):
            begun.clear()
            run = self.mailroom.send(text, agent="cut")
            self.assertTrue(begun.wait(PATIENCE))
            self.mailroom.cancel(run)
            self.assertEqual(run.wait(timeout=PATIENCE).status, status)
            self.assertEqual([k for k in self.kinds(run) if k.startswith("effect.")], ["effect.intended", last])

    def test_async_handlers_share_a_loop_and_do_the_same(self) -> None:
        loops = set()

        async def handle(s: AsyncSession) -> str:
            loops.add(asyncio.get_running_loop())

            async def call(n: int) -> int:
                await asyncio.sleep(0)
                return n
            got = await asyncio.gather(*(s.effect(f"e{n}", lambda n=n: call(n)) for n in range(4)))
            value = await s.memo("memo", lambda: "kept")
            if await s.approval("go", prompt="Go?"):
                await s.write(f"{sum(got)} {value} {await twice(4)} ")
            return "end"
        self.serve("async", handle)
        runs = [self.mailroom.send("x", agent="async") for _ in range(3)]
        for run in runs:
            self.approve(run)
        for run in runs:
            self.assertEqual(self.done(run), "6 kept 8 end")
        self.assertEqual(len(loops), 1)

    def test_what_an_async_handler_waits_for_at_once_is_asked_together(self) -> None:
        """An effect and a memo that run beside the questions are recorded before the attempt ends."""
        calls: list[str] = []

        async def slow(name: str) -> str:
            calls.append(name)
            await asyncio.sleep(0.3)
            return name

        async def handle(s: AsyncSession) -> str:
            got = await asyncio.gather(s.approval("a", prompt="A?"), s.ask("b", "B?"), s.event("c"),
                                       s.call("child", "hello", agent="echo"), s.sleep("nap", 0.01),
                                       s.effect("pay", lambda: slow("pay")), s.memo("look", lambda: slow("look")))
            return f"{bool(got[0])} {got[1]} {got[2]} {got[3].reply} {got[5]} {got[6]}"
        self.serve("together", handle)
        run = self.mailroom.send("x", agent="together")
        q = f"run:{run.id} state:open kind:approval,input,event"
        asked = until("all is asked", lambda: len(rows := list(self.mailroom.tickets(q))) == 3 and rows)
        self.assertEqual({t.name for t in asked}, {"a", "b", "c"})
        until("the attempt has ended", lambda: run.refresh().status == "waiting")
        self.assertEqual(sorted(calls), ["look", "pay"])
        for ticket in asked:
            if ticket.kind == "approval":
                self.mailroom.decide(ticket, "approve")
            else:
                self.mailroom.decide(ticket, "answer", answer=ticket.name.upper())
        self.assertEqual(self.done(run), "True B C hello pay look")
        self.assertEqual(sorted(calls), ["look", "pay"])
        self.assertEqual(self.kinds(run).count("effect.unknown"), 0)

    def test_a_question_ends_the_handler_with_parked_and_nothing_else(self) -> None:
        raised: list[type[BaseException]] = []

        def handle(s: Session) -> str:
            for name in ("a", "b"):
                try:
                    s.approval(name, prompt="Go?")
                except BaseException as err:  # the second one is not asked: the handler has been told
                    raised.append(type(err))
            return "end"
        self.serve("parked", handle)
        run = self.mailroom.send("x", agent="parked").wait(until_asked=True, timeout=PATIENCE)
        self.assertEqual([t.name for t in self.mailroom.asks(run=run.id)], ["a"])
        self.assertEqual(raised, [Parked, Parked])
        self.mailroom.cancel(run)

    def test_an_async_handler_that_cannot_be_called_fails(self) -> None:
        async def handle() -> None:
            pass
        self.serve("uncallable", handle)
        run = self.mailroom.send("x", agent="uncallable", max_attempts=1).wait(timeout=PATIENCE)
        self.assertIn("TypeError", (run.error or {})["message"])

    def test_an_exit_of_one_async_handler_leaves_the_others_running(self) -> None:
        async def handle(s: AsyncSession) -> str:
            if s.text == "exit":
                raise SystemExit(3)
            return "hello"
        self.serve("exits", handle)
        run = self.mailroom.send("exit", agent="exits", max_attempts=1)
        self.assertEqual(run.wait(timeout=PATIENCE).status, "failed")
        self.assertEqual(self.done(self.mailroom.send("greet", agent="exits")), "hello")

    def test_any_number_of_async_calls_of_one_effect_is_one_call(self) -> None:
        calls: list[int] = []

        async def handle(s: AsyncSession) -> str:
            async def call() -> int:
                calls.append(1)
                return 7
            return str(set(await asyncio.gather(*(s.effect("one", call) for _ in range(40)))))
        self.serve("crowd", handle, slots=1)
        self.assertEqual(self.done(self.mailroom.send("x", agent="crowd")), "{7}")
        self.assertEqual(len(calls), 1)

    def test_a_stop_cancels_the_task_which_cleans_up(self) -> None:
        begun, cleaned = threading.Event(), []

        async def handle(s: AsyncSession) -> None:
            begun.set()
            try:
                await asyncio.Event().wait()
            finally:
                await asyncio.sleep(0)
                cleaned.append(1)
        self.serve("endless", handle)
        run = self.mailroom.send("x", agent="endless")
        self.assertTrue(begun.wait(PATIENCE))
        self.mailroom.cancel(run)
        self.assertEqual(run.wait(timeout=PATIENCE).status, "cancelled")
        self.assertEqual(cleaned, [1])

    def test_a_turn_whose_last_step_spends_the_budget_completes(self) -> None:
        calls: list[str] = []
        usage = {"input_tokens": 5, "output_tokens": 5}

        def at_once(s: Session) -> str:
            calls.append("at-once")
            s.step(usage=usage)
            return "the answer"

        async def later(s: AsyncSession) -> str:
            calls.append("later")
            await s.step(usage=usage)
            return "the answer"

        async def writes(s: AsyncSession) -> None:
            calls.append("writes")
            await s.write("the answer")
            await s.step(usage=usage, checkpoint=1)

        for agent, handler in (("at-once", at_once), ("later", later), ("writes", writes)):
            self.serve(agent, handler)
            for _ in range(5):  # the order of the stop and the answer of the step is not fixed
                run = self.mailroom.send("x", agent=agent, budget={"tokens": 10})
                end = run.wait(until_asked=True, timeout=PATIENCE)
                self.assertEqual((end.status, end.reply), ("completed", "the answer"), agent)
        self.assertEqual(sorted(calls), ["at-once"] * 5 + ["later"] * 5 + ["writes"] * 5)

    def test_a_failure_for_good_stays_one_after_the_budget(self) -> None:
        def handle(s: Session) -> str:
            s.step(usage={"input_tokens": 5, "output_tokens": 5})
            raise Failure("permanent", "the model refuses the request")
        self.serve("refused", handle)
        run = self.mailroom.send("x", agent="refused", budget={"tokens": 10})
        self.assertEqual(run.wait(until_asked=True, timeout=PATIENCE).status, "failed")

    def test_a_handler_that_goes_on_after_the_budget_is_stopped(self) -> None:
        def at_once(s: Session) -> str:
            s.step(usage={"input_tokens": 5, "output_tokens": 5})
            s.step("another")
            return "too much"

        async def later(s: AsyncSession) -> str:
            await s.step(usage={"input_tokens": 5, "output_tokens": 5})
            await asyncio.Event().wait()
            return "too much"

        for agent, handler in (("goes-on", at_once), ("goes-on-later", later)):
            self.serve(agent, handler)
            run = self.mailroom.send("x", agent=agent, budget={"tokens": 10})
            self.assertEqual(run.wait(until_asked=True, timeout=PATIENCE).status, "waiting")


if __name__ == "__main__":
    unittest.main()
