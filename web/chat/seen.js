// Which entry of each thread this browser showed last. A thread with a newer one is unread.

const MOST = 500; // threads that are kept, those that were shown last

export class Seen {
  #key;
  #last = null; // [thread, seq] that was shown last, so that most calls of show need no storage

  constructor(path) { this.#key = `mailroom.seen ${path}`; }

  /** Returns a function that says whether a thread is unread. */
  reader() {
    const seen = this.#read();
    return ({ id, last_seq: seq }) => seen !== null && seq > (seen.get(id) ?? 0);
  }

  /** Takes the threads as shown if this browser has not shown any: it would mark all of them as unread. */
  begin(threads) {
    if (this.#read()) return;
    this.#write([...threads.map(({ id, last_seq: seq }) => [id, seq]).reverse(), ...(this.#last ? [this.#last] : [])]);
  }

  show(id, seq) {
    if (this.#last?.[0] === id && this.#last[1] === seq) return;
    this.#last = [id, seq];
    const seen = this.#read();
    if (seen === null || seen.get(id) === seq) return;
    seen.delete(id); // the newest is at the end
    this.#write([...seen.set(id, seq)]);
  }

  forget() {
    this.#last = null;
    try {
      localStorage.removeItem(this.#key);
    } catch {
      // This browser keeps no data for this page.
    }
  }

  // Other tabs change it too, so it is read each time. null: nothing is kept.
  #read() {
    try {
      const kept = JSON.parse(localStorage.getItem(this.#key));
      return Array.isArray(kept) ? new Map(kept) : null;
    } catch {
      return null; // not allowed, or not written by this page
    }
  }

  #write(pairs) {
    try {
      localStorage.setItem(this.#key, JSON.stringify([...new Map(pairs)].slice(-MOST)));
    } catch {
      // Not allowed, or full: then marks are missing.
    }
  }
}
