// Unanswered messages, stored with their idempotency keys until the server answers: a
// message interrupted by a reload is sent again and submitted once.

import { newKey } from './client/mailroom.js';

const KEY = 'mailroom.outbox';

export class Outbox {
  #all = read();

  /** Messages without an answer of the server. */
  get unanswered() { return this.#all.filter(({ message }) => !message); }

  /** after is the seq of the newest entry on the page when it was sent. */
  add({ thread, body, after }) {
    const one = { key: newKey(), thread, body, after, message: null };
    this.#all.push(one);
    this.#write();
    return one;
  }

  /** Records the server's answer: the thread and the id of the message. */
  answered(one, { thread, message }) {
    Object.assign(one, { thread, message });
    this.#write();
  }

  remove(one) {
    this.#all = this.#all.filter((each) => each !== one);
    this.#write();
  }

  /** Removes all messages and returns the unanswered ones. */
  clear() {
    const left = this.unanswered;
    this.#all = [];
    this.#write();
    return left;
  }

  /**
   * Transcript items for messages that are not in the thread's log yet. A message can be
   * in the log before its answer arrives; it is recognized by its text then.
   */
  items(thread, { messages }) {
    const taken = new Set();
    const there = ({ message, after, body }) => {
      if (message) return messages.has(message);
      const found = [...messages.values()].find(({ id, role, seq, text }) => role === 'user' && seq > after && text === body.text && !taken.has(id));
      taken.add(found?.id);
      return Boolean(found);
    };
    const items = [];
    for (const one of this.#all.filter((each) => each.thread === thread)) {
      if (!there(one)) items.push(item(one));
      else if (one.message) this.remove(one);
    }
    return items;
  }

  #write() { sessionStorage.setItem(KEY, JSON.stringify(this.unanswered)); }
}

const item = ({ key, body }) => ({
  kind: 'message', key: `sending:${key}`, role: 'user', sender: '', text: body.text, parts: [], at: null,
  run: null, state: 'sending', partial: false, again: false, live: false,
});

function read() {
  try {
    return JSON.parse(sessionStorage.getItem(KEY)) ?? [];
  } catch {
    return []; // not written by this page
  }
}
