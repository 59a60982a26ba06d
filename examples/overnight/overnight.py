"""An agent for the night: it calls a model and tools in turns, and asks a person before it publishes."""

import json
import os
import pathlib
import urllib.error
import urllib.request

import rehearsal
from mailroom import Failure, Worker, effect_key

MODEL = os.environ.get("MODEL", "claude-sonnet-4-5")
NOTES, PUBLISHED = pathlib.Path("notes"), pathlib.Path("published")
TURNS = 20  # of the model, in one run
TEXT = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
TOOLS = [
    {"name": "list_notes", "description": "Lists the names of the notes.", "input_schema": {"type": "object"}},
    {"name": "read_note", "description": "Reads a note; text is its name.", "input_schema": TEXT},
    {"name": "publish", "description": "Publishes a text. A person is asked before.", "input_schema": TEXT},
]

worker = Worker()


@worker.agent("overnight")
def overnight(s):
    messages = [{"role": "user", "content": s.text}]
    for turn in range(TURNS):
        # A memo keeps the answer: an attempt after a crash or a wait goes on from here and does not pay for it again.
        content = s.memo(f"model {turn}", lambda: ask_model(s, messages))
        messages.append({"role": "assistant", "content": content})
        calls = [part for part in content if part["type"] == "tool_use"]
        if not calls:
            return "".join(part["text"] for part in content)
        results = [{"type": "tool_result", "tool_use_id": call["id"], "content": use(s, call)} for call in calls]
        messages.append({"role": "user", "content": results})
    raise Failure("permanent", f"the model did not come to an end in {TURNS} turns")


def use(s, call):
    """Calls a tool, once in the run, and returns its result."""
    name = f"{call['name']} {call['id']}"
    if call["name"] == "publish":
        # The run waits here as a row: no process, no connection, for as long as people sleep.
        decision = s.approval(f"may {name}", prompt="Publish this?", action="publish", arguments=call["input"])
        if not decision:
            return f"A person said no. {decision.reason}"
    return s.effect(name, lambda: run_tool(s, call), input=call["input"], idempotent=True)


def run_tool(s, call):
    s.tool(call["name"], call["input"], call=call["id"])  # shows the call in the log of the thread
    text = call["input"].get("text", "")
    notes = sorted(path.name for path in NOTES.iterdir())
    if call["name"] == "list_notes":
        result = "\n".join(notes)
    elif call["name"] == "read_note":
        result = (NOTES / text).read_text() if text in notes else f"There is no note {text!r}."
    else:
        # The key is the same in each attempt. A service would get it as an idempotency key; here it names the file.
        PUBLISHED.mkdir(exist_ok=True)
        (PUBLISHED / (effect_key().replace("/", " ") + ".md")).write_text(text)
        result = "It is published."
    s.tool_finished(call["id"], result, summary=result.partition("\n")[0])
    return result


def ask_model(s, messages):
    """Returns the content of the model's next answer, and shows its text while it is written."""
    key = os.environ.get("ANTHROPIC_API_KEY")
    if not key:
        return rehearsal.answer(messages)
    body = {"model": MODEL, "max_tokens": 4096, "stream": True, "tools": TOOLS, "messages": messages}
    url = os.environ.get("ANTHROPIC_BASE_URL", "https://api.anthropic.com") + "/v1/messages"
    head = {"content-type": "application/json", "anthropic-version": "2023-06-01", "x-api-key": key}
    try:
        with urllib.request.urlopen(urllib.request.Request(url, json.dumps(body).encode(), head), timeout=300) as answer:
            return read_answer(s, answer)
    except urllib.error.HTTPError as err:
        if err.code not in (429, 500, 502, 503, 504, 529):
            raise Failure("permanent", f"the model answered {err.code}: {err.read(500)!r}") from err
        wait = err.headers.get("retry-after") or "0"
        raise Failure("unavailable", f"the model answered {err.code}", retry_after=float(wait)) from err
    except OSError as err:  # no connection, or it broke
        raise Failure("unavailable", f"no answer of the model: {err}") from err


def read_answer(s, lines):
    content, usage, arguments = [], {}, ""
    for event in (json.loads(line[6:]) for line in lines if line.startswith(b"data: ")):
        if event["type"] == "message_start":
            usage.update(event["message"]["usage"])
        elif event["type"] == "content_block_start":
            content.append(event["content_block"])
            arguments = ""
        elif event["type"] == "content_block_delta" and "text" in event["delta"]:
            content[-1]["text"] += event["delta"]["text"]
            s.reasoning(event["delta"]["text"])  # seen live; the reply is stored when the run ends
        elif event["type"] == "content_block_delta":
            arguments += event["delta"].get("partial_json", "")
        elif event["type"] == "content_block_stop" and content[-1]["type"] == "tool_use":
            content[-1]["input"] = json.loads(arguments or "{}")
        elif event["type"] == "message_delta":
            usage.update(event["usage"])
        elif event["type"] == "message_stop":
            s.step(usage={"model": MODEL, "input_tokens": usage["input_tokens"], "output_tokens": usage["output_tokens"]})
            return content
    raise ConnectionError("the answer broke off")


if __name__ == "__main__":
    worker.run()
