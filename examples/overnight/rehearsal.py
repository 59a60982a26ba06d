"""A model that needs no key: it lists the notes, reads each, and publishes their first lines."""

import os
import time

PAUSE = float(os.environ.get("PAUSE", "5"))  # for an answer: time to kill something


def answer(messages):
    time.sleep(PAUSE)
    turn = len(messages) // 2
    results = [part["content"] for part in messages[-1]["content"]] if turn else []
    if turn == 0:
        return [call("list", "list_notes")]
    if turn == 1:
        return [call(f"read {name}", "read_note", text=name) for name in results[0].splitlines()]
    if turn == 2:
        return [call("publish", "publish", text="\n".join(text.splitlines()[0] for text in results))]
    return [{"type": "text", "text": f"I have read the notes. {results[0]}"}]


def call(id, name, **arguments):
    return {"type": "tool_use", "id": id, "name": name, "input": arguments}
