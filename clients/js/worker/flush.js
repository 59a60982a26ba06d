// Sends the text of an attempt while it is written: to readers often, to the store about once a second.

import { isFinal } from './errors.js';
import { Draft } from './text.js';

const showEvery = 50; // ms
const storeEvery = 1000; // ms
const most = 64 * 1024; // characters that readers lack before a write waits
const breath = 25; // ms of writing without a pause, after which write lets timers and answers run
const patience = 5_000; // ms that a request with live text may take

export class Flusher {
  draft = new Draft();
  #attempt;
  #timer = null;
  #flush = null; // the flush under way
  #isRefused = false; // the server refuses the text, and nothing is flushed any more
  #storeAt = performance.now() + storeEvery;
  #breathed = performance.now();

  constructor(attempt) { this.#attempt = attempt; }

  write(text) {
    this.#attempt.waitsOn = '';
    this.draft.write(text);
    return this.#wrote();
  }

  show(text, channel, call, name) {
    this.#attempt.waitsOn = '';
    this.draft.show(text, channel, call, name);
    return this.#wrote();
  }

  /** Ends the message being written and returns its draft. What is written from now on belongs to the next message. */
  take() {
    const draft = this.draft;
    this.draft = draft.next = new Draft();
    return draft;
  }

  /** Continues a message that take has ended, because its step was not committed. What was written since follows it. */
  keep(draft) {
    const after = draft.next;
    draft.absorb(after);
    after.into = draft;
    draft.next = after.next;
    if (this.draft !== after) return; // the next step takes it, or keeps it
    this.draft = draft;
    if (draft.behind > 0) this.#schedule(showEvery); // a flush that ended in the meantime saw an empty draft
  }

  stop() {
    clearTimeout(this.#timer);
    this.#timer = null;
  }

  // Makes a writer wait if it is faster than the server. A handler that awaits nothing but writes must not block the
  // event loop, because the renewals run in it.
  async #wrote() {
    this.#schedule(showEvery);
    if (performance.now() - this.#breathed > breath) {
      await new Promise((resolve) => { setTimeout(resolve); });
      this.#breathed = performance.now();
    }
    while (this.draft.behind > most && !this.#attempt.over && !this.#isRefused) await (this.#flush ?? this.#start());
  }

  #schedule(delay) {
    if (this.#timer !== null || this.#flush || this.#attempt.over || this.#isRefused) return;
    this.#timer = setTimeout(() => this.#start(), delay);
  }

  #start() {
    this.stop();
    const { draft } = this; // a step that takes it is sent after this flush
    const send = () => this.#attempt.over || this.#send(current(draft));
    this.#flush = this.#attempt.inTurn(send).catch((error) => this.#failed(error)).then(() => {
      this.#flush = null;
      if (this.draft.behind > 0) this.#schedule(showEvery);
      else if (this.draft.unstored) this.#schedule(Math.max(showEvery, this.#storeAt - performance.now()));
    });
    return this.#flush;
  }

  // Text that does not arrive is sent again. If the server refuses it, the reply would be incomplete.
  #failed(error) {
    if (!isFinal(error)) return;
    this.#isRefused = true;
    this.#attempt.end(error);
  }

  async #send(draft) {
    const store = draft.unstored && performance.now() >= this.#storeAt;
    for (const body of draft.toShow(!store)) {
      // Live text that does not arrive is not repeated: the text of the message is stored later.
      await this.#attempt.post('deltas', body, { once: true, timeout: patience }).catch(() => {});
    }
    if (!store) return;
    const { body, stored } = draft.toStore();
    this.#storeAt = performance.now() + storeEvery;
    await this.#attempt.post('deltas', body);
    stored();
  }
}

/** The draft that has the text of this one. */
export function current(draft) {
  while (draft.into) draft = draft.into;
  return draft;
}
