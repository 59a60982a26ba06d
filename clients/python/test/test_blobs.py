"""Blobs, against a real server."""

from __future__ import annotations

import unittest

from fixture import Case
from mailroom import AsyncSession, Failure, MailroomError, Session

LARGE = bytes(range(256)) * 4000  # some pieces


class TestBlobs(Case):
    def test_later_attempts_and_runs_find_what_steps_wrote(self) -> None:
        def handle(s: Session) -> str:
            b = s.blobs
            if s.text == "learn" and s.attempt == 1:
                s.write("I ")
                b.put("notes/ü?&/1", LARGE)
                b.put("notes/2", b"old")
                b.put("notes/2", b"")
                b.put("gone", b"x")
                b.delete("gone")
                b.delete("never")
                s.write("see")
                s.step(checkpoint=1, blobs={"notes/3": b"three", "gone": None})
                raise Failure("transient", "once more")
            self.assertEqual(b.get("notes/ü?&/1"), LARGE)
            self.assertEqual((b.get("notes/2"), b.get("notes/3"), b.get("gone")), (b"", b"three", None))
            if s.text == "learn":
                self.assertEqual(s.saved, 1)
            self.assertEqual([x.name for x in b.list()], ["notes/2", "notes/3", "notes/ü?&/1"])
            self.assertEqual([x.size for x in b.list("notes/", "notes/3")], [len(LARGE)])
            return "found"
        self.serve("librarian", handle)
        first = self.mailroom.send("learn", agent="librarian", thread="library")
        self.assertEqual(self.done(first), "found")
        texts = [e.body["text"] for e in first.follow() if e.kind == "message" and e.body.get("role") == "assistant"]
        self.assertEqual(texts[0], "I see")
        self.assertEqual(self.done(self.mailroom.send("ask", agent="librarian", thread="library")), "found")

    def test_async_handlers_have_them_too(self) -> None:
        async def handle(s: AsyncSession) -> str:
            await s.blobs.put("a", LARGE)
            await s.blobs.put("b", b"x")
            await s.blobs.delete("b")
            await s.step(blobs={"c": b"y"})
            self.assertEqual(await s.blobs.get("a"), LARGE)
            self.assertIsNone(await s.blobs.get("b"))
            return " ".join(b.name for b in await s.blobs.list())
        self.serve("async-librarian", handle)
        self.assertEqual(self.done(self.mailroom.send("x", agent="async-librarian")), "a c")

    def test_what_is_no_blob_is_refused_in_one_sentence(self) -> None:
        def handle(s: Session) -> str:
            for name, content, code in (("", b"", "invalid"), ("a\0", b"", "invalid"), ("x" * 257, b"", "invalid"),
                                        ("a", "text", "invalid"), ("a", bytes((16 << 20) + 1), "too_large")):
                with self.assertRaises(MailroomError) as caught:
                    s.blobs.put(name, content)  # type: ignore[arg-type]
                self.assertEqual(caught.exception.code, code)
            s.blobs.put("largest", bytes(16 << 20))
            self.assertEqual(len(s.blobs.get("largest") or b""), 16 << 20)
            s._attempt.contract = 4
            for call in (lambda: s.blobs.put("a", b""), lambda: s.blobs.get("a"), lambda: s.blobs.list()):
                with self.assertRaisesRegex(MailroomError, "^the server is too old for blobs; update the server"):
                    call()
            return "refused"
        self.serve("strict", handle)
        self.assertEqual(self.done(self.mailroom.send("x", agent="strict")), "refused")


if __name__ == "__main__":
    unittest.main()
