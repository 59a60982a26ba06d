// One stream of all entries keeps the open page up to date.

import { signal } from '../vendor/preact.js';
import { Alarm, Pauses } from '../chat/client/pause.js';
import { client, lose } from './account.js';

const BATCH = 500; // milliseconds in which entries are gathered, so that a busy server causes few requests

/** The connection: { state: "connecting" | "live" | "waiting", since }. */
export const connection = signal({ state: 'connecting', since: Date.now() });

const GRACE = 400; // milliseconds that a page waits for its stream before it reads without it
const HIDDEN = 60_000; // milliseconds after which a hidden page gives up its stream

const alarm = new Alarm();
const listeners = new Set();
let stop = null;
let missed = false; // entries came while the page was hidden
let leaving = null; // timer of a hidden page
/** @type {(() => void)[] | null} */
let early = []; // who waits for the first stream; null: it is live, or took too long
let grace = null; // timer of these

/** Calls listener with new entries, gathered for up to half a second, and with [] if it must read everything again. */
export function listen(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

/**
 * Waits until the first stream of the page is live, for a moment at most. What is read then misses no entry of the stream; what
 * was read before is read again when the stream is live, so that each page would be read twice.
 */
export function opened() {
  if (!early) return Promise.resolve();
  grace ??= setTimeout(letIn, GRACE);
  return new Promise((resolve) => { early.push(() => resolve(undefined)); });
}

function letIn() {
  clearTimeout(grace);
  const waiting = early ?? [];
  early = null;
  for (const go of waiting) go();
}

/** Follows the stream until end is called. */
export async function follow() {
  stop?.abort();
  stop = new AbortController();
  const { signal } = stop;
  const batch = new Batch();
  const onState = (state) => {
    if (state === connection.value.state) return;
    const first = early !== null; // nothing was read yet
    connection.value = { state, since: Date.now() };
    if (state === 'live' && !first) batch.flush(true);
    if (state !== 'connecting') letIn();
  };
  const pauses = new Pauses(1_000, 30_000);
  while (!signal.aborted) {
    try {
      for await (const event of client.followAll({ signal, onState })) {
        pauses.reset();
        if (event.kind === 'entry') batch.add(event.entry);
        else if (event.kind === 'gap') batch.flush(true);
      }
    } catch (error) {
      if (error.code === 'unauthenticated') return lose();
    }
    if (signal.aborted) return;
    // The client itself retries errors that pass. Others are retried here, because they may end too: too many streams,
    // or a right that was taken away for a while.
    onState('waiting');
    await alarm.sleep(pauses.next(), signal);
  }
}

/** Ends the stream. */
export function end() {
  stop?.abort();
  stop = null;
}

// Batch gathers entries and hands them on together.
class Batch {
  #entries = [];
  #timer = null;

  add(entry) {
    this.#entries.push(entry);
    this.#timer ??= setTimeout(() => this.flush(false), BATCH);
  }

  flush(all) {
    clearTimeout(this.#timer);
    this.#timer = null;
    const entries = all ? [] : this.#entries;
    this.#entries = [];
    if (document.hidden) missed = true; // a hidden page reads nothing until it is shown
    else tell(entries);
  }
}

function tell(entries) {
  for (const listener of listeners) listener(entries);
}

// nudge connects at once.
function nudge() {
  client?.nudge();
  alarm.ring();
}

addEventListener('online', nudge);
document.addEventListener('visibilitychange', () => {
  clearTimeout(leaving);
  if (document.hidden) {
    leaving = setTimeout(() => stop?.abort(), HIDDEN);
  } else if (stop?.signal.aborted) {
    missed = false;
    follow(); // everything is read again once it is live
  } else {
    nudge();
    if (missed) tell([]);
    missed = false;
  }
});
