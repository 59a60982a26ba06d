"""The conformance agent in Python: performs the script of a run (docs/workers.md). python conform.py AGENT [async]"""

from __future__ import annotations

import asyncio
import json
import os
import pathlib
import signal
import sys
import time
from typing import Any, Callable

from mailroom import AsyncSession, Failure, Happened, MailroomError, Session, Unknown, Worker

FOLDER = pathlib.Path(os.environ["CONFORMANCE_DIR"])


class Performer:
    """One attempt of a run. Every method but hold_async is called in a thread that may block."""

    def __init__(self, s: Session) -> None:
        self.s = s
        self.values: list[str] = []

    def keep(self, name: str, value: Any) -> None:
        self.values.append(f"{name}={json.dumps(value, separators=(',', ':'), ensure_ascii=False)}")

    def note(self, what: str) -> None:
        with open(FOLDER / "notes", "a") as file:
            file.write(f"{self.s.run} {self.s.attempt} {what}\n")

    def noted(self, what: str) -> bool:
        lines = [line.split(" ", 2) for line in (FOLDER / "notes").read_text().splitlines()]
        return any(run == self.s.run and said == what for run, _, said in lines)

    def hold(self, gate: str, deaf: bool = False) -> None:
        while not (FOLDER / f"gate.{self.s.run}.{gate}").exists() and (deaf or not self.s.stopping):
            time.sleep(0.02)

    def crash(self, name: str | None) -> None:
        if name and not self.noted(f"crash {name}"):
            self.note(f"crash {name}")
            os.kill(os.getpid(), signal.SIGKILL)

    def fail(self, cls: Any, times: int = 1) -> None:
        for n in range(times):
            if not self.noted(f"fail {n}"):
                self.note(f"fail {n}")
                raise Failure(cls, "it failed")

    def happen(self, name: str, o: dict[str, Any]) -> Callable[[], str]:
        def call() -> str:
            if "hold" in o:
                self.hold(o["hold"])
            first = not self.noted(f"effect {name}")
            self.note(f"effect {name}")
            self.crash(o.get("crash"))
            if first and o.get("unknown"):
                raise Unknown("no answer")
            if first and o.get("fails"):
                raise RuntimeError("the effect has failed")
            return self.value(o, f"did {name}")
        return call

    def value(self, o: dict[str, Any], usual: Any) -> Any:
        """The value that options ask for: one that cannot be encoded, a large one, or the usual one."""
        return object() if o.get("odd") else "x" * o["large"] if o.get("large") else usual

    def kept(self, o: dict[str, Any]) -> dict[str, Any]:
        """What a step keeps."""
        kept = {"checkpoint": self.value(o, o.get("checkpoint"))} if {"checkpoint", "odd", "large"} & set(o) else {}
        return {**kept, "blobs": {name: text.encode() for name, text in o.get("blobs", {}).items()}}

    def content(self, text: str, times: int = 1) -> bytes:
        """The content of a blob that a script names."""
        return text.encode() * times

    def found(self, name: str, content: bytes | None, text: str = "", times: int = 1) -> None:
        self.keep(name, None if content is None else content == self.content(text, times))

    def raises(self, code: str) -> None:
        if not self.noted(f"raise {code}"):
            self.note(f"raise {code}")
            raise MailroomError(code, "it was refused")

    def fork(self) -> None:
        """Forks. The child goes on as the parent does, which waits for its end."""
        if child := os.fork():
            self.note(f"note child {os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])}")

    def options(self, name: str, input: Any = None, idempotent: bool = False, reconcile: bool = False,
                **_: Any) -> dict[str, Any]:
        find = (lambda: Happened(f"did {name}") if self.noted(f"effect {name}") else None) if reconcile else None
        return {"input": input, "idempotent": idempotent, "reconcile": find}

    def result(self, script: list[Any]) -> Any:
        """What the handler returns: its values, or what the last operation says."""
        return script[-1][1] if script[-1][0] == "return" else " ".join(self.values)

    def local(self, verb: str, *args: Any) -> bool:
        """Performs what needs no call of the session. Returns whether it was such an operation."""
        calls: dict[str, Callable[..., None]] = {
            "note": lambda name: self.note(f"note {name}"), "crash": self.crash, "fail": self.fail,
            "block": lambda gate: self.hold(gate, deaf=True), "saved": lambda: self.keep("saved", self.s.saved),
            "state": lambda: self.keep("state", self.s.state), "waits-on": self.s.waits_on,
            "raise": self.raises, "fork": self.fork, "close-stdout": sys.stdout.close}
        if verb in calls:
            calls[verb](*args)
        return verb in calls


def perform(s: Session) -> Any:
    p = Performer(s)
    script = json.loads(s.input[0].text)
    perform_all(s, p, [op for op in script if op[0] != "return"])
    return p.result(script)


def perform_all(s: Session, p: Performer, script: list[Any]) -> None:
    for verb, *args in script:
        if p.local(verb, *args):
            continue
        name = args[0] if args else ""
        options = args[1] if len(args) > 1 else {}
        if verb == "write":
            for _ in range(options or 1):
                s.write(name)
        elif verb == "hold":
            p.hold(name)
            s.write("")  # raises what ends the attempt
        elif verb == "effect":
            p.keep(name, s.effect(name, p.happen(name, options), **p.options(name, **options)))
        elif verb == "part":
            if (s.saved or 0) < name:
                perform_all(s, p, options)
                s.checkpoint(name)
        elif verb == "extend":
            s.extend(name)
        elif verb == "memo":
            p.keep(name, s.memo(name, p.happen(name, options)))
        elif verb == "step":
            if "state" in options:
                s.state = options["state"]
            s.step(name, **p.kept(options), entries=[{"kind": "x.by", "body": {"step": name, "attempt": s.attempt}}],
                   progress=options.get("progress"), aside=options.get("aside", False))
        elif verb == "approval":
            p.keep(name, bool(s.approval(name, prompt=f"May I {name}?", action=name)))
        elif verb == "ask":
            p.keep(name, s.ask(name, f"What of {name}?"))
        elif verb == "sleep":
            s.sleep(name, options / 1000)
        elif verb == "send":
            s.send(name, args[2], agent=options)
        elif verb == "call":
            end = s.call(name, args[2], agent=options)
            p.keep(name, f"{end.status}: {end.reply}")
        elif verb == "put" and len(args) == 1:
            s.blobs.delete(name)
        elif verb == "put":
            s.blobs.put(name, p.content(args[1].replace("#", str(s.attempt)), *args[2:]))
        elif verb == "blob":
            p.found(name, s.blobs.get(name), *args[1:])
        elif verb == "try":
            try:
                perform_all(s, p, name)
            except MailroomError as err:
                p.keep("caught", err.code)
        elif verb == "steered":
            while not (found := s.steered()):
                time.sleep(0.02)
            p.keep(verb, [m.text for m in found])
        elif verb == "transcript":
            p.keep(verb, [m.text for m in s.transcript(10)])
        elif verb == "log":
            p.keep(verb, [e.kind for e in s.log(name)])
        else:
            raise Failure("permanent", f"unknown operation {verb}")


async def perform_async(s: AsyncSession) -> Any:
    p = Performer(s.sync)
    script = json.loads(s.input[0].text)
    await perform_all_async(s, p, [op for op in script if op[0] != "return"])
    return p.result(script)


async def perform_all_async(s: AsyncSession, p: Performer, script: list[Any]) -> None:
    for verb, *args in script:
        if p.local(verb, *args):
            continue
        name = args[0] if args else ""
        options = args[1] if len(args) > 1 else {}
        if verb == "write":
            for _ in range(options or 1):
                await s.write(name)
        elif verb == "hold":
            while not (FOLDER / f"gate.{s.run}.{name}").exists():
                await asyncio.sleep(0.02)
        elif verb == "effect":
            p.keep(name, await s.effect(name, p.happen(name, options), **p.options(name, **options)))
        elif verb == "part":
            if (s.saved or 0) < name:
                await perform_all_async(s, p, options)
                await s.checkpoint(name)
        elif verb == "extend":
            await s.extend(name)
        elif verb == "memo":
            p.keep(name, await s.memo(name, p.happen(name, options)))
        elif verb == "step":
            if "state" in options:
                s.sync.state = options["state"]
            by = {"step": name, "attempt": s.attempt}
            await s.step(name, **p.kept(options), entries=[{"kind": "x.by", "body": by}],
                         progress=options.get("progress"), aside=options.get("aside", False))
        elif verb == "approval":
            p.keep(name, bool(await s.approval(name, prompt=f"May I {name}?", action=name)))
        elif verb == "ask":
            p.keep(name, await s.ask(name, f"What of {name}?"))
        elif verb == "sleep":
            await s.sleep(name, options / 1000)
        elif verb == "send":
            await s.send(name, args[2], agent=options)
        elif verb == "call":
            end = await s.call(name, args[2], agent=options)
            p.keep(name, f"{end.status}: {end.reply}")
        elif verb == "put" and len(args) == 1:
            await s.blobs.delete(name)
        elif verb == "put":
            await s.blobs.put(name, p.content(args[1].replace("#", str(s.attempt)), *args[2:]))
        elif verb == "blob":
            p.found(name, await s.blobs.get(name), *args[1:])
        elif verb == "try":
            try:
                await perform_all_async(s, p, name)
            except MailroomError as err:
                p.keep("caught", err.code)
        elif verb == "steered":
            while not (found := await s.steered()):
                await asyncio.sleep(0.02)
            p.keep(verb, [m.text for m in found])
        elif verb == "transcript":
            p.keep(verb, [m.text for m in await s.transcript(10)])
        elif verb == "log":
            p.keep(verb, [e.kind for e in await s.log(name)])
        else:
            raise Failure("permanent", f"unknown operation {verb}")


if __name__ == "__main__":
    worker = Worker(grace=2)
    worker.agent(sys.argv[1])(perform_async if sys.argv[2:] == ["async"] else perform)
    worker.run()
