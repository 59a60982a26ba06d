// The list of threads, newest first.

import { cut, el, when } from './text.js';

const EVERY = 20_000; // milliseconds between refreshes while the page is visible
const SOON = 400;

export class Recent {
  #list;
  #load;
  #open;
  #timer;
  #due = Infinity; // time of the next refresh
  #round = 0; // stop begins another one, so that a load that is under way is ignored
  #now = null; // id of the thread that is open
  #threads = [];

  /** load returns threads; open is called with the id of the chosen one. */
  constructor(list, { load, open }) {
    [this.#list, this.#load, this.#open] = [list, load, open];
    document.addEventListener('visibilitychange', () => this.soon());
  }

  /** Marks the thread that is open. */
  mark(id) {
    this.#now = id;
    this.#draw();
  }

  thread(id) { return this.#threads.find((thread) => thread.id === id); }

  /** Refreshes the list shortly after an event. */
  soon(after = SOON) {
    const due = Date.now() + after;
    if (this.#due <= due) return; // frequent events must not postpone it
    clearTimeout(this.#timer);
    this.#due = due;
    this.#timer = setTimeout(() => this.#look(), after);
  }

  stop() {
    clearTimeout(this.#timer);
    this.#due = Infinity;
    this.#round++;
    this.#threads = [];
    this.#draw();
  }

  async #look() {
    this.#due = Infinity;
    const round = this.#round;
    let threads = this.#threads;
    if (document.visibilityState === 'visible') {
      try {
        threads = await this.#load();
      } catch {
        // The stream of the open thread shows the error; the list refreshes later.
      }
    }
    if (round !== this.#round) return; // stopped, or another user
    this.#threads = threads;
    this.#draw();
    this.soon(EVERY);
  }

  #draw() {
    const focused = document.activeElement?.dataset?.thread;
    this.#list.replaceChildren(...this.#threads.map((thread) => this.#row(thread)));
    if (focused) [...this.#list.querySelectorAll('button')].find(({ dataset }) => dataset.thread === focused)?.focus();
  }

  #row({ id, agent, status, metadata, updated_at: at }) {
    const does = { running: 'working', queued: 'queued', waiting: 'waits for a decision' }[status];
    return el('li', {}, el('button', {
      type: 'button', 'data-thread': id, title: id, 'aria-current': id === this.#now ? 'page' : null, onclick: () => this.#open(id),
    },
    el('span', { class: 'name' }, nameOf({ id, metadata })),
    el('span', { class: 'about' }, does ? el('span', { class: `state ${status}` }, does) : agent, ` · ${when(at)}`)));
  }
}

/** The display name of a thread: its title, else its id, shortened if it is generated. */
export function nameOf({ id, metadata }) {
  const title = metadata && typeof metadata.title === 'string' ? metadata.title.trim() : '';
  if (title) return cut(title, 60);
  return /^[0-9a-f]{8}-[0-9a-f-]{27}$/.test(id) ? `Thread ${id.slice(0, 8)}` : id;
}
