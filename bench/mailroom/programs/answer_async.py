"""As answer.py, with a coroutine: all runs share one event loop."""
import sys
import time

from mailroom import Worker

worker = Worker(slots=int(sys.argv[1]))


@worker.agent("answer")
async def answer(s):
    return str(time.time_ns())


worker.run()
