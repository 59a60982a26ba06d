"""The worker of the part "workers": it answers each run with the time at which its handler was called, in ns."""
import sys
import time

from mailroom import Worker

worker = Worker(slots=int(sys.argv[1]))


@worker.agent("answer")
def answer(s):
    return str(time.time_ns())


worker.run()
