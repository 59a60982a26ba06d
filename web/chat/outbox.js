// Messages that are on their way. They are kept with their keys until the server
// has answered, so that one which a reload interrupts is sent again, and yet once.

import { newKey } from './client/mailroom.js';

const KEY = 'mailroom.outbox';

export class Outbox {
  #all = read();

  /** What the server has not answered. */
  get unanswered() { return this.#all.filter(({ message }) => !message); }

  /** after is the seq of the newest entry that its sender saw. */
  add({ thread, body, after }) {
    const one = { key: newKey(), thread, body, after, message: null };
    this.#all.push(one);
    this.#write();
    return one;
  }

  /** The server took it: into that thread, as that message. */
  answered(one, { thread, message }) {
    Object.assign(one, { thread, message });
    this.#write();
  }

  remove(one) {
    this.#all = this.#all.filter((each) => each !== one);
    this.#write();
  }

  /** Drops everything, and returns what was not answered. */
  clear() {
    const left = this.unanswered;
    this.#all = [];
    this.#write();
    return left;
  }

  /**
   * Items, as a transcript has them, for what is not in the thread's log yet. A
   * message can be there before its answer is here; it is known by its text then.
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
    return []; // not ours: nothing can be sent from it
  }
}
