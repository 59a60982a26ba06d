"""Serves the agent "ask": a message to it is a question to a person, and the answer is its reply."""

from mailroom import Expired, Worker

worker = Worker(slots=100)


@worker.agent("ask")
def ask(s):
    try:
        answer = s.ask("answer", s.text, expires=7 * 24 * 3600)
    except Expired:
        return "Nobody has answered within a week."
    return answer if isinstance(answer, str) else str(answer)


if __name__ == "__main__":
    worker.run()
