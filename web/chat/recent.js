// The list of threads, those with the newest entries first.

import { Seen } from './seen.js';
import { cut, el, when } from './text.js';

const LENGTH = 50;
const PAGES = 3; // the first ones may have few threads that are listed
// The server has these threads for itself.
const OTHERS = '-id:channel:*,alert:*,out:*,project:*,issue:*';

/**
 * Loads the threads of the list. asks is set on those with an open question to a person. A run also waits for timers, events
 * and other runs, so the questions are read too: at once for all threads, and only if one of them waits.
 */
export async function loadRecent(client) {
  const threads = [];
  for (let cursor, page = 0; page < PAGES && cursor !== null && threads.length < LENGTH; page++) {
    const { items, next } = await client.threads({ q: OTHERS, cursor, limit: LENGTH });
    threads.push(...items.filter(({ parent }) => !parent));
    cursor = next;
  }
  if (threads.some(({ status }) => status === 'waiting')) {
    const { items, next } = await client.tickets({ q: 'state:open kind:approval,input', limit: 100 });
    const asked = new Set(items.map(({ thread }) => thread));
    // With more questions than these, a missed one would be worse than a mark too many.
    for (const thread of threads) thread.asks = thread.status === 'waiting' && (next !== null || asked.has(thread.id));
  }
  return threads.slice(0, LENGTH).sort((a, b) => new Date(b.updated_at) - new Date(a.updated_at));
}

const EVERY = 20_000; // milliseconds between refreshes while the page is visible
const SOON = 400;

export class Recent {
  #list;
  #load;
  #open;
  #seen;
  #timer;
  #due = Infinity; // time of the next refresh
  #round = 0; // stop begins another one, so that a load that is under way is ignored
  #now = null; // id of the thread that is open
  #threads = [];

  /** load returns threads; open is called with the id of the chosen one; path is that of the server. */
  constructor(list, { load, open, path }) {
    [this.#list, this.#load, this.#open, this.#seen] = [list, load, open, new Seen(path)];
    list.addEventListener('keydown', (event) => this.#move(event));
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
        if (round === this.#round) this.#seen.begin(threads);
      } catch {
        // The stream of the open thread shows the error; the list refreshes later.
      }
    }
    if (round !== this.#round) return; // stopped, or another user
    this.#threads = threads;
    this.#draw();
    this.soon(EVERY);
  }

  /** Notes what the page shows of a thread. */
  showed(id, seq) { this.#seen.show(id, seq); }

  /** Forgets what this browser showed. */
  forget() { this.#seen.forget(); }

  #draw() {
    const focused = document.activeElement?.dataset?.thread;
    const old = new Map([...this.#list.children].map((row) => [row.firstChild.dataset.thread, row]));
    const unread = this.#seen.reader();
    const rows = this.#threads.map((thread) => this.#row(thread, unread(thread), old.get(thread.id)));
    const kept = new Set(rows);
    for (const row of old.values()) if (!kept.has(row)) row.remove();
    let place = this.#list.firstChild;
    for (const row of rows) {
      if (row === place) place = place.nextSibling;
      else this.#list.insertBefore(row, place);
    }
    if (focused && document.activeElement?.dataset?.thread !== focused) this.#buttons().find(({ dataset }) => dataset.thread === focused)?.focus();
  }

  // row changes the content of the old row, so that a press of its button that is under way counts.
  #row(thread, unread, old) {
    const { id } = thread;
    const open = id === this.#now;
    const button = el('button', { type: 'button', 'data-thread': id, title: id, 'aria-current': open ? 'page' : null, onclick: () => this.#open(id) }, ...contentOf(thread, unread && !open));
    if (!old) return el('li', {}, button);
    const now = old.firstChild;
    if (now.isEqualNode(button)) return old;
    if (open) now.setAttribute('aria-current', 'page');
    else now.removeAttribute('aria-current');
    now.replaceChildren(...button.childNodes);
    return old;
  }

  #buttons() { return [...this.#list.querySelectorAll('button')]; }

  // The arrow keys, Home and End move the focus within the list.
  #move(event) {
    const all = this.#buttons();
    const at = all.indexOf(document.activeElement);
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: all.length - 1 }[event.key];
    if (at < 0 || to === undefined || event.altKey || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    all[to]?.focus();
  }
}

const STATES = { running: 'Working', queued: 'Queued', waiting: 'Waiting' };

// contentOf makes the two lines of a thread. Commas that are not seen separate them for a screen reader.
function contentOf(thread, unread) {
  const { id, agent, status, asks, updated_at: at } = thread;
  const title = cut(thread.title ?? '', 200);
  const name = ownName(thread) || title || nameOf(thread);
  const repeated = name.endsWith('…') ? title.startsWith(name.slice(0, -1)) : title === name;
  const state = asks ? 'Waits for you' : STATES[status];
  const words = title && !repeated ? title : name === id || GENERATED.test(id) ? agent : id;
  const comma = () => el('span', { class: 'unseen' }, ', ');
  return [
    el('span', { class: 'line' },
      el('span', { class: unread ? 'name unread' : 'name' }, name), comma(),
      unread ? el('span', { class: 'new' }, el('span', { class: 'unseen' }, 'unread, ')) : null,
      el('time', { datetime: at, title: when(at) }, age(at))),
    el('span', { class: 'line about' },
      comma(), state ? el('span', { class: asks ? 'state asks' : 'state' }, state) : null, state ? comma() : null,
      el('span', { class: 'words' }, words)),
  ];
}

const day = new Intl.DateTimeFormat(undefined, { day: 'numeric', month: 'short' });
const UNITS = [[86_400, 'd'], [3_600, 'h'], [60, 'min']];

// age says how long ago a time is, and of more than a week the day.
function age(at) {
  const seconds = (Date.now() - new Date(at).valueOf()) / 1000;
  if (Number.isNaN(seconds)) return '';
  if (seconds > 7 * 86_400) return day.format(new Date(at));
  const [size, unit] = UNITS.find(([most]) => seconds >= most) ?? [];
  return unit ? `${Math.floor(seconds / size)} ${unit}` : 'now';
}

const ownName = ({ metadata }) => (metadata && typeof metadata.title === 'string' ? cut(metadata.title, 60) : '');

const GENERATED = /^[0-9a-f]{8}-[0-9a-f-]{27}$/;

/** The display name of a thread: its own, else its id, or if that is generated its title, or the beginning of the id. */
export function nameOf({ id, title = '', metadata }) {
  return ownName({ metadata }) || (GENERATED.test(id) ? cut(title, 60) || `Thread ${id.slice(0, 8)}` : id);
}
