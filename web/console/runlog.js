// The logs of the runs that a page shows: read in bounded parts, and kept up to date by the stream.

import { signal, useEffect, useMemo } from '../vendor/preact.js';
import { client, lose } from './account.js';
import { term } from './address.js';
import { listen, opened } from './live.js';
import { HEAD, KEPT, merge, trim } from './loaded.js';
import { ended, gapKinds } from './spans.js';

const PAGE = 500; // entries of a request
const MORE = 2_000; // entries that "load more" adds
const REQUESTS = 4; // of one read; a request may find few entries, if other runs have written many
const CHILDREN = 100; // of a request

/** @typedef {import('./spans.js').LogEntry} LogEntry */
/** @typedef {import('./loaded.js').RunLog} RunLog */

/** The logs of a run and of the runs below it that the user has opened. */
class Logs {
  #version = signal(0); // of all logs: a component that reads one is rendered again with the next change
  /** @type {Map<string, RunLog & { pending: LogEntry[] | null, busy: Set<string>, again: Set<string> }>} */
  #logs = new Map();
  #stop = new AbortController();

  constructor(id) { this.id = id; }

  /** Grows with each change. */
  get version() { return this.#version.value; }

  start() {
    this.#stop = new AbortController();
    this.open(this.id);
    return listen((entries) => this.#hear(entries));
  }

  end() { this.#stop.abort(); }

  /** @returns {RunLog | null} */
  get root() { return this.get(this.id); }

  /** @returns {RunLog | null} */
  get(id) { return this.version >= 0 ? this.#logs.get(id) ?? null : null; }

  /** Begins to read a run. */
  open(id) {
    if (this.#logs.has(id)) return;
    this.#logs.set(id, { id, run: null, entries: [], gap: null, blind: false, full: false, children: [], nextChildren: null, error: null, pending: [], busy: new Set(), again: new Set() });
    opened().then(() => this.reload(id));
  }

  /** Reads a run again from its begin. */
  reload(id) { return this.#once(id, 'all', (log, signal) => this.#readAll(log, signal)); }

  /** Reads its row, and nothing of its log. */
  refresh(id) { return this.#once(id, 'run', async (log, signal) => { log.run = await client.run(id, { signal }); }); }

  /** Reads on in the gap. */
  more(id) {
    return this.#once(id, 'more', async (log, signal) => {
      if (!log.gap || log.full) return;
      const { entries, next } = await this.#pages(log.run, log.gap.after, MORE, undefined, signal);
      log.entries = merge(log.entries, entries);
      log.gap = next === null || next >= log.gap.before - 1 ? null : { after: next, before: log.gap.before };
      if (!log.gap) log.blind = false;
      log.full = log.entries.length >= KEPT - MORE;
    });
  }

  /** Reads more of its children. */
  moreChildren(id) {
    return this.#once(id, 'children', async (log, signal) => {
      const page = await client.runs({ q: term('parent', id), cursor: log.nextChildren ?? undefined, limit: CHILDREN, signal });
      const known = new Set(log.children.map((row) => row.id));
      log.children = [...log.children, ...page.items.filter((row) => !known.has(row.id))];
      log.nextChildren = page.next;
    });
  }

  // once runs a read of a kind at most once at a time for a run; another call during it causes another one.
  async #once(id, kind, read) {
    const log = this.#logs.get(id);
    const { signal } = this.#stop;
    if (!log || signal.aborted) return;
    if (log.busy.has(kind)) {
      log.again.add(kind);
      return;
    }
    log.busy.add(kind);
    try {
      await read(log, signal);
      log.error = null;
    } catch (error) {
      if (!signal.aborted && error.code === 'unauthenticated') lose();
      log.error = error;
    }
    log.busy.delete(kind);
    if (signal.aborted) return;
    this.#changed();
    if (log.again.delete(kind)) this.#once(id, kind, read);
  }

  #changed() { this.#version.value += 1; }

  async #readAll(log, signal) {
    log.pending ??= [];
    log.run = await client.run(log.id, { signal });
    this.#changed();
    const begin = log.run.messages[0] ? await client.message(log.run.thread, log.run.messages[0], { signal }).catch(() => null) : null;
    const [head, children] = await Promise.all([
      this.#pages(log.run, begin ? begin.seq - 1 : 0, HEAD, undefined, signal), client.runs({ q: term('parent', log.id), limit: CHILDREN, signal }),
    ]);
    [log.children, log.nextChildren] = [children.items, children.next];
    [log.entries, log.gap, log.blind] = [head.entries, null, false];
    if (head.next !== null && !closed(log)) await this.#readRest(log, head.next, signal);
    log.entries = merge(log.entries, log.pending);
    log.pending = null;
  }

  // readRest reads the end of a long log, and of what is before it what says when attempts begin and end.
  async #readRest(log, after, signal) {
    const frame = await this.#pages(log.run, after, PAGE * REQUESTS, gapKinds, signal);
    const over = ended(log.run.status) && frame.next === null && frame.entries.length > 0;
    const before = over ? frame.entries.at(-1).seq + 1 : Number.MAX_SAFE_INTEGER;
    const tail = await client.entries(log.run.thread, { run: log.id, before, limit: PAGE, signal });
    const newest = tail.items.filter(({ seq }) => seq > after);
    log.blind = frame.next !== null;
    log.entries = merge(merge(log.entries, frame.entries), newest);
    const first = newest[0]?.seq ?? before;
    log.gap = tail.next === null || (tail.items[0]?.seq ?? Infinity) <= after ? null : { after, before: first };
  }

  // pages reads entries after a seq. next is the seq after which the others come, null if there are none.
  async #pages({ id, thread }, after, most, kind, signal) {
    /** @type {LogEntry[]} */
    const entries = [];
    let next = after;
    for (let i = 0; i < REQUESTS && next !== null && entries.length < most; i++) {
      const page = await client.entries(thread, { run: id, after: next, kind, limit: PAGE, signal });
      entries.push(...page.items);
      next = page.next === null ? null : Number(page.next);
    }
    return { entries, next };
  }

  #hear(entries) {
    if (entries.length === 0) {
      for (const id of this.#logs.keys()) this.#catchUp(id);
      return;
    }
    const by = new Map();
    for (const entry of entries) if (this.#logs.has(entry.run)) by.set(entry.run, [...(by.get(entry.run) ?? []), entry]);
    for (const [id, list] of by) this.#add(id, list);
    const others = new Set(entries.filter(({ kind }) => kind.startsWith('run.')).map(({ run }) => run));
    const begins = entries.some(({ kind }) => kind === 'run.queued');
    for (const [id, log] of this.#logs) {
      if (!log.run) continue;
      if ((begins && !ended(log.run.status)) || log.children.some((row) => others.has(row.id))) this.#readChildren(id);
      const waits = log.run.status === 'queued' || log.run.status === 'waiting';
      if (id === this.id && waits && !by.has(id) && entries.some(({ kind }) => /^(run|ticket)\./.test(kind))) this.refresh(id); // what it waits for may be another run
    }
    if (by.size > 0) this.#changed();
  }

  #add(id, list) {
    const log = this.#logs.get(id);
    if (log.pending) {
      log.pending.push(...list);
      return;
    }
    log.entries = merge(log.entries, list);
    trim(log);
    this.refresh(id);
  }

  // readChildren reads the newest children again: their states, and new ones.
  #readChildren(id) {
    return this.#once(id, 'newest', async (log, signal) => {
      const page = await client.runs({ q: term('parent', id), limit: CHILDREN, signal });
      const fresh = new Set(page.items.map((row) => row.id));
      if (log.children.length === 0) log.nextChildren = page.next;
      log.children = [...page.items, ...log.children.filter((row) => !fresh.has(row.id))];
    });
  }

  // catchUp reads what came while the stream was away.
  #catchUp(id) {
    const log = this.#logs.get(id);
    if (!log.run || log.pending) return this.reload(id);
    this.#readChildren(id);
    return this.#once(id, 'new', async (of, signal) => {
      of.run = await client.run(id, { signal });
      const last = of.entries.at(-1)?.seq;
      const { entries, next } = await this.#pages(of.run, last ?? 0, PAGE, undefined, signal);
      if (next !== null) await this.#readAll(of, signal);
      else of.entries = merge(of.entries, entries);
      trim(of);
    });
  }
}

// closed reports whether the entries have the end of the run: what other runs wrote behind it is not read.
function closed({ run, entries }) {
  const last = entries.findLast(({ kind }) => kind.startsWith('run.'));
  return ended(run.status) && last?.kind === `run.${run.status}` && last.attempt === run.attempt;
}

/** The logs of a run and of its children, which are read when they are opened. */
export function useLogs(id) {
  const logs = useMemo(() => new Logs(id), [id]);
  useEffect(() => {
    const ignore = logs.start();
    return () => {
      ignore();
      logs.end();
    };
  }, [logs]);
  return logs;
}
