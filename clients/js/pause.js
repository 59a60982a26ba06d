// Waiting between tries.

/**
 * Pauses grow from first to longest (milliseconds) while nothing works. Each is
 * random between nothing and the present bound ("full jitter"), so that many
 * clients which lost one server do not all come back at the same moment.
 */
export class Pauses {
  constructor(first = 200, longest = 10_000) {
    this.first = first;
    this.longest = longest;
    this.failures = 0;
  }

  reset() { this.failures = 0; }

  /** The next pause, never shorter than what the server asked for. */
  next(retryAfter = 0) {
    const bound = Math.min(this.longest, this.first * 2 ** this.failures);
    this.failures = Math.min(this.failures + 1, 30);
    return Math.max(retryAfter, Math.random() * bound);
  }
}

/** Ends every pause that is under way: something says that trying now makes sense. */
export class Alarm {
  #sleepers = new Set();

  ring() { for (const wake of [...this.#sleepers]) wake(); }

  /** Resolves after that time, when the alarm rings, or when signal is aborted. */
  sleep(milliseconds, signal) {
    if (signal?.aborted) return Promise.resolve();
    return new Promise((resolve) => {
      const wake = () => {
        clearTimeout(timer);
        this.#sleepers.delete(wake);
        signal?.removeEventListener('abort', wake);
        resolve();
      };
      const timer = setTimeout(wake, milliseconds);
      this.#sleepers.add(wake);
      signal?.addEventListener('abort', wake);
    });
  }
}

/** What promise comes to, or a rejection with signal's reason if that is aborted first. */
export function unlessAborted(promise, signal) {
  if (!signal) return promise;
  return new Promise((resolve, reject) => {
    const abort = () => reject(signal.reason);
    if (signal.aborted) abort();
    signal.addEventListener('abort', abort);
    promise.then(resolve, reject).finally(() => signal.removeEventListener('abort', abort));
  });
}
