// The view of a thread, folded from the events of Mailroom.follow.

const FINISHED = ['completed', 'failed', 'cancelled'];
// The tickets that people decide. A program, not a person, ends an event that holds the queue.
const asks = ({ kind, holds }) => ['approval', 'input'].includes(kind) || (kind === 'event' && !holds);

/**
 * Transcript folds entries and live text into items, in the order in which the agent
 * read them. Every item has a kind, a unique and stable key, and a run:
 *
 * - message: id, role, sender, text, parts, at, state (accepted, read, superseded),
 *   partial, again (cut off by an attempt that was repeated), live (being written),
 *   aside (written before the reply, such as before a tool call).
 *   Unread messages come last.
 * - ticket: ticket, a question of a run with its outcome.
 * - note: an activity of a run: about (step, tool, effect, send, timer), name, detail,
 *   and ok (undefined: not known yet).
 * - retry: an attempt will be repeated at until: reason, error.
 * - end: its run failed or was cancelled: status, reason, error, forced.
 * - gap: gap, entries that are no longer kept.
 *
 * Items change in place; changed() returns those that did.
 */
export class Transcript {
  #entries = []; // as received, to fold again after older ones are prepended
  #known = { runs: [], tickets: [], entries: [] };
  #changed = new Set();

  constructor() { this.#reset(); }

  #reset() {
    /** Runs by id: `{ id, agent, status, attempt, started, stopping, until }`. */
    this.runs = new Map();
    /** First and last seq of the folded entries; 0 for none. */
    this.firstSeq = this.lastSeq = 0;
    this.read = []; // items in order of reading
    this.unread = []; // messages that no run has taken
    this.asked = []; // tickets whose entries are not loaded
    this.live = null; // { item, bytes } of the message being written
    /** What the agent thinks before or within the message being written, live only: `{ run, attempt, message, text, bytes }`. */
    this.thinking = null;
    /** What a silent agent waits for, in its words, until anything else of its run comes: `{ run, attempt, text, since }`. */
    this.waitsOn = null;
    this.messages = new Map(); // id → item
    this.bySeq = new Map(); // seq of a message or its edit → item
    /** Seqs of older messages, not loaded, that were read within the loaded entries; pass them to know(). */
    this.missing = new Set();
    this.tickets = new Map(); // id → item
    this.calls = new Map(); // call or effect → item
  }

  get items() {
    return [...this.read, ...(this.live ? [this.live.item] : []), ...this.asked, ...this.unread];
  }

  /** The items that are new or have changed since the last call. */
  changed() {
    const out = this.#changed;
    this.#changed = new Set();
    return out;
  }

  /** The run that has started and is not finished, else the first in the queue, else null. */
  get current() {
    const open = [...this.runs.values()].filter(({ status }) => status && !FINISHED.includes(status));
    return open.find(({ started }) => started) ?? open[0] ?? null;
  }

  /** How many runs have not started. */
  get queued() {
    return [...this.runs.values()].filter(({ status, started }) => status === 'queued' && !started).length;
  }

  /** Adds an event of follow. A repeat changes nothing. */
  take({ kind, entry, delta, gap }) {
    if (kind === 'entry') this.#append(entry);
    else if (kind === 'delta') this.#write(delta);
    else if (kind === 'gap') this.#put(this.read, { kind: 'gap', key: `gap:${gap.after}`, gap });
  }

  /** Prepends older entries, in order of seq. */
  prepend(older) {
    const { live, thinking, waitsOn, firstSeq } = this;
    const entries = [...older.filter(({ seq }) => !firstSeq || seq < firstSeq), ...this.#entries];
    this.#reset();
    this.#entries = [];
    this.#recall(this.#known);
    this.unread = []; // messages that were read are placed while folding
    for (const entry of entries) this.#append(entry);
    this.thinking = thinking;
    this.waitsOn = waitsOn;
    if (!live || this.messages.has(live.item.id)) return;
    this.live = live;
    live.item.sender ||= this.#run(live.item.run).agent ?? '';
  }

  /**
   * Adds facts that are older than the loaded entries: runs and tickets of the API, and
   * the entries in missing. Loaded entries take precedence.
   */
  know({ runs = [], tickets = [], entries = [] }) {
    this.#known.runs.push(...runs);
    this.#known.tickets.push(...tickets);
    this.#known.entries.push(...entries);
    if (entries.length > 0) this.prepend([]);
    else this.#recall({ runs, tickets, entries });
  }

  #recall({ runs, tickets, entries }) {
    for (const { id, agent, status, attempt, stopping, available_at: until, started_at: at, waits_on: waits } of runs) {
      const run = this.#run(id);
      if (waits && attempt >= run.attempt && !FINISHED.includes(run.status)) this.waitsOn = { run: id, attempt, ...waits };
      if (!run.status) Object.assign(run, { agent, status, attempt: Math.max(attempt, run.attempt), stopping, until, started: Boolean(at) });
    }
    for (const ticket of tickets) {
      if (ticket.state === 'open' && asks(ticket) && !this.tickets.has(ticket.id)) this.#asks(this.asked, ticket);
    }
    for (const entry of entries) this.#said(entry.kind.split('.')[1], entry);
  }

  #append(entry) {
    if (entry.seq <= this.lastSeq) return;
    this.#entries.push(entry);
    this.firstSeq ||= entry.seq;
    this.lastSeq = entry.seq;
    const [family, what] = entry.kind.split('.');
    const run = entry.run ? this.#run(entry.run) : null;
    if (run && entry.attempt > 0) {
      if (this.waitsOn?.run === run.id) this.waitsOn = null;
      run.attempt = Math.max(run.attempt, entry.attempt);
      if (family !== 'message') run.started = true;
      run.status ||= 'running'; // its start is older than the loaded entries
    }
    if (family === 'message') this.#said(what, entry);
    else if (family === 'run') this.#ran(what, entry, run);
    else if (family === 'ticket') this.#decided(what, entry);
    else this.#did(family, what, entry);
  }

  #run(id) {
    if (!this.runs.has(id)) this.runs.set(id, { id, agent: null, status: null, attempt: 0, started: false, stopping: false, until: null });
    return this.runs.get(id);
  }

  #said(what, { seq, at, attempt, body }) {
    if (what === undefined) {
      this.#message(body, seq, at, attempt);
      return;
    }
    if (what === 'read') {
      this.#readAt(body.seq);
      return;
    }
    const item = this.messages.get(body.message);
    if (!item) return; // older than the loaded entries, or internal
    if (what === 'retracted') {
      this.#remove(item);
      this.messages.delete(item.id);
    } else if (what === 'edited') {
      Object.assign(item, { text: body.text, parts: body.parts });
      this.bySeq.set(seq, item);
      this.#changed.add(item);
    }
  }

  #message(m, seq, at, attempt) {
    const own = this.live?.item.id === m.id;
    const item = own ? this.live.item : { kind: 'message', key: `message:${m.id}` };
    if (own) this.live = null;
    if (this.thinking?.message === m.id) this.thinking = null;
    const aside = m.visibility === 'internal';
    if (aside && m.role !== 'assistant') return;
    Object.assign(item, {
      id: m.id, seq, at, attempt, role: m.role, sender: m.sender, text: m.text, parts: m.parts, run: m.run,
      state: 'read', partial: m.partial, again: false, live: false, aside,
    });
    this.messages.set(m.id, item);
    this.bySeq.set(seq, item);
    if (m.role !== 'assistant') item.state = 'accepted';
    this.#put(m.role === 'assistant' ? this.read : this.unread, item);
  }

  #ran(what, { seq, at, body }, run) {
    if (this.thinking?.run === run.id && what !== 'stop_requested') this.thinking = null;
    if (this.live?.item.run === run.id && what !== 'stop_requested') this.live = null; // its entry came before, if it had one
    switch (what) {
      case 'queued':
        Object.assign(run, { agent: body.agent, status: 'queued', until: body.available_at });
        for (const id of body.messages) {
          const item = this.messages.get(id);
          if (item) item.run = run.id;
        }
        return;
      case 'started':
      case 'resumed':
        Object.assign(run, { status: 'running', started: true, until: null });
        for (const place of body.messages ?? []) this.#readAt(place);
        return;
      case 'waiting':
        Object.assign(run, { status: 'waiting', until: body.until });
        return;
      case 'stop_requested':
        run.stopping = true;
        return;
      case 'rescheduled':
        Object.assign(run, { status: 'queued', until: body.available_at });
        this.#again(run);
        if (body.reason !== 'released' && body.reason !== 'gave_way') {
          this.#put(this.read, { kind: 'retry', key: `retry:${seq}`, run: run.id, at, attempt: body.attempt, reason: body.reason, error: body.error ?? null, until: body.available_at });
        }
        return;
      case 'retried':
        Object.assign(run, { status: 'queued', started: false, stopping: false, until: null });
        this.#again(run);
        for (const item of this.read) if (item.kind === 'end' && item.run === run.id) this.#changed.add(item);
        return;
      case 'completed':
      case 'failed':
      case 'cancelled':
        this.#ended(what, { seq, at, body }, run);
    }
  }

  #ended(status, { seq, at, body }, run) {
    const began = run.started;
    Object.assign(run, { status, stopping: false, until: null });
    for (const item of this.tickets.values()) {
      if (item.run === run.id && item.ticket.state === 'open') this.#settle(item, { state: 'void' });
    }
    if (status === 'completed') return;
    if (began) {
      this.#put(this.read, {
        kind: 'end', key: `end:${seq}`, run: run.id, at, status, reason: body.reason ?? null, error: body.error ?? null, forced: Boolean(body.forced),
      });
    } else if (body.reason !== 'merged') { // else the run that took over its messages shows them
      for (const item of this.unread.filter((one) => one.run === run.id)) this.#place(item, 'superseded');
    }
  }

  // Text of an attempt that broke off is not part of the reply.
  #again(run) {
    const item = this.read.findLast(({ kind, run: id }) => kind === 'message' && id === run.id);
    if (!item?.partial) return;
    item.again = true;
    this.#changed.add(item);
  }

  #decided(what, { seq, body }) {
    if (what === 'opened') {
      if (asks(body)) {
        this.asked = this.asked.filter(({ key }) => key !== `ticket:${body.id}`);
        this.#asks(this.read, body);
      } else if (body.kind === 'timer') {
        this.#note(seq, { run: body.run, about: 'timer', name: body.name, detail: body.expires_at });
      }
      return;
    }
    const item = this.tickets.get(body.ticket);
    if (!item) return;
    if (what === 'expired') this.#settle(item, { state: 'expired' });
    else this.#settle(item, { state: 'decided', decision: body.decision, answer: body.answer, reason: body.reason, decided_by: body.decided_by });
  }

  #asks(list, ticket) {
    const item = { kind: 'ticket', key: `ticket:${ticket.id}`, run: ticket.run, ticket: { ...ticket } };
    this.tickets.set(ticket.id, item);
    this.#put(list, item);
  }

  #settle(item, outcome) {
    Object.assign(item.ticket, outcome);
    this.#changed.add(item);
  }

  #did(family, what, { seq, run, body }) {
    if (family === 'step') {
      this.#note(seq, { run, about: 'step', name: body.name, ok: true });
    } else if (family === 'send') {
      this.#note(seq, { run, about: 'send', name: body.thread, detail: body.answer ? 'waits for its answer' : '', ok: true });
    } else if (family === 'tool' && what === 'started') {
      this.calls.set(`${run}/${body.call}`, this.#note(seq, { run, about: 'tool', name: body.name, detail: body.arguments }));
    } else if (family === 'tool') {
      const item = this.calls.get(`${run}/${body.call}`) ?? this.#note(seq, { run, about: 'tool', name: body.call });
      Object.assign(item, { ok: body.ok, result: body.summary });
      this.#changed.add(item);
    } else if (family === 'effect' && what === 'unknown') {
      this.#note(seq, { run, about: 'effect', name: body.name, detail: 'outcome unknown', ok: false });
    } else if (family === 'effect' && what === 'settled' && body.error) {
      this.#note(seq, { run, about: 'effect', name: body.name, detail: body.error, ok: false });
    }
  }

  #note(seq, fields) {
    return this.#put(this.read, { kind: 'note', key: `note:${seq}`, ...fields });
  }

  // Live text is positional: a repeated part is cut off, and text after a hole is dropped
  // until it comes again or the message's entry arrives.
  #write({ run: id, attempt, message, offset, channel, text }) {
    const run = this.#run(id);
    if (channel === 'waits') {
      if (attempt < run.attempt || FINISHED.includes(run.status)) return;
      if (this.waitsOn?.run !== id || this.waitsOn.text !== text) this.waitsOn = { run: id, attempt, text, since: new Date().toISOString() };
      return;
    }
    if (this.waitsOn?.run === id) this.waitsOn = null;
    if (channel === 'thinking') {
      this.#think({ run: id, attempt, message, offset, text });
      return;
    }
    if (channel !== 'text' || attempt < run.attempt || FINISHED.includes(run.status) || this.messages.has(message)) return;
    run.attempt = attempt;
    run.status ||= 'running';
    if (this.live?.item.id !== message) {
      if (offset > 0) return;
      const item = {
        kind: 'message', key: `message:${message}`, id: message, seq: 0, at: null, attempt, role: 'assistant', sender: run.agent ?? '',
        text: '', parts: [], run: id, state: 'read', partial: false, again: false, live: true, aside: false,
      };
      this.live = { item, bytes: 0 };
    }
    const bytes = new TextEncoder().encode(text);
    const had = this.live.bytes - offset;
    if (had < 0 || had >= bytes.length) return;
    this.live.item.text += had === 0 ? text : new TextDecoder().decode(bytes.subarray(had));
    this.live.bytes += bytes.length - had;
    this.#changed.add(this.live.item);
  }

  /** Appends thinking; a repeat changes nothing, and what follows a gap replaces it. */
  #think({ run: id, attempt, message, offset, text }) {
    const run = this.#run(id);
    if (attempt < run.attempt || FINISHED.includes(run.status) || this.messages.has(message)) return;
    const bytes = new TextEncoder().encode(text);
    const { thinking } = this;
    const follows = thinking?.message === message && thinking.bytes >= offset;
    if (follows && thinking.bytes >= offset + bytes.length) return;
    const had = follows ? thinking.bytes - offset : 0;
    this.thinking = {
      run: id, attempt, message, bytes: offset + bytes.length,
      text: (follows ? thinking.text : '') + new TextDecoder().decode(bytes.subarray(had)),
    };
  }

  #put(list, item) {
    list.push(item);
    this.#changed.add(item);
    return item;
  }

  #readAt(seq) {
    const item = this.bySeq.get(seq);
    if (item) this.#place(item, 'read'); // else it is internal, or older
    else if (seq < this.firstSeq) this.missing.add(seq);
  }

  #place(item, state) {
    this.#remove(item);
    item.state = state;
    this.#put(this.read, item);
  }

  #remove(item) {
    this.unread = this.unread.filter((one) => one !== item);
    this.read = this.read.filter((one) => one !== item);
  }
}
