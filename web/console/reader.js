// Reads Markdown in a worker, one text at a time, and gives up a text that takes too long.

import { script } from './trusted.js';

const PATIENCE = 5_000; // milliseconds for one text; the page goes on and shows it as plain text
const KEPT = 100; // texts whose tokens are kept

/** Reads texts. A text that cannot be read in time is null, and is not tried again. */
class Reader {
  #kept = new Map(); // text: promise of its tokens; the oldest first
  #queue = []; // { text, done }
  #worker = null;
  #ready = false;
  #timer = 0;

  /** Resolves to the tokens of a text, null if it stays plain text. */
  read(text) {
    const kept = this.#kept.get(text);
    if (kept) return kept;
    const made = new Promise((done) => { this.#queue.push({ text, done }); });
    this.#kept.set(text, made);
    if (this.#kept.size > KEPT) this.#kept.delete(this.#kept.keys().next().value);
    if (this.#queue.length === 1) this.#next();
    return made;
  }

  // next hands the first text of the queue to the worker.
  #next() {
    if (this.#queue.length === 0) return;
    if (!this.#worker) this.#start();
    if (!this.#ready) return; // its first message calls next
    this.#worker.postMessage(this.#queue[0].text);
    this.#timer = setTimeout(() => this.#fail(), PATIENCE);
  }

  #start() {
    const worker = new Worker(script('lexer'), { type: 'module' });
    worker.onmessage = ({ data }) => {
      if (worker !== this.#worker) return; // it was ended
      if (data.ready) {
        this.#ready = true;
        this.#next();
      } else {
        this.#answer(data.blocks);
      }
    };
    worker.onerror = () => worker === this.#worker && this.#fail();
    this.#worker = worker;
    this.#ready = false;
  }

  #answer(blocks) {
    clearTimeout(this.#timer);
    this.#queue.shift()?.done(blocks);
    this.#next();
  }

  // fail ends the worker, which may still be busy. The next text gets a new one.
  #fail() {
    this.#worker.terminate();
    this.#worker = null;
    this.#answer(null);
  }
}

export const reader = new Reader();
