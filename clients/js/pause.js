// Backoff between attempts.

/**
 * Exponential backoff from first to longest, in milliseconds, with full jitter: each
 * pause is random between zero and the current bound, so that the clients of one
 * server do not all reconnect at the same moment.
 */
export class Pauses {
  constructor(first = 200, longest = 10_000) {
    this.first = first;
    this.longest = longest;
    this.failures = 0;
  }

  reset() { this.failures = 0; }

  /** The next pause, at least the server's Retry-After. */
  next(retryAfter = 0) {
    const bound = Math.min(this.longest, this.first * 2 ** this.failures);
    this.failures = Math.min(this.failures + 1, 30);
    return Math.max(retryAfter, Math.random() * bound);
  }
}

/** Ends all current pauses, for example when the machine is online again. */
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

/** Settles like promise, or rejects with signal's reason if that is aborted first. */
export function unlessAborted(promise, signal) {
  if (!signal) return promise;
  return new Promise((resolve, reject) => {
    const abort = () => reject(signal.reason);
    if (signal.aborted) abort();
    signal.addEventListener('abort', abort);
    promise.then(resolve, reject).finally(() => signal.removeEventListener('abort', abort));
  });
}
