// The view of a thread, folded from the events of Mailroom.follow. The server folds the same entries in its package
// stream/turn; the cases of testdata/turns.json test that both give an entry the same meaning.

const FINISHED = ['completed', 'failed', 'cancelled'];
// Whether a person decides the ticket. An event that holds the queue is decided by a program.
const asks = ({ kind, holds }) => ['approval', 'input'].includes(kind) || (kind === 'event' && !holds);
const BREAKS = ['waiting', 'rescheduled', 'retried', ...FINISHED]; // ends of an attempt
const CALLS = 64; // calls whose arguments are shown while they are written
const TEXT = 2 ** 20; // shown characters of the arguments of one call, or of thinking: an agent may write any number

/** Text that an agent wrote: whatever else is in its place counts as empty. */
const textOf = (value) => (typeof value === 'string' ? value : '');

/**
 * Transcript folds entries and live text into items, in the order in which the agent
 * read them. Every item has a kind, a unique and stable key, and a run:
 *
 * - message: id, role, sender, text, parts, at, state (accepted, read, superseded),
 *   partial, again (cut off by an attempt that was repeated), live (being written),
 *   aside (written before the reply, such as before a tool call). A message in the state
 *   unread was not read before its run ended. Accepted messages, which may still be read, come last.
 * - ticket: ticket, a question of a run with its outcome.
 * - note: an activity of a run: about (step, tool, effect, send, timer), name, detail, and
 *   progress: live (its arguments, so far in detail, are being written), open (it goes on),
 *   done, failed, expired, void (its run ended first, or the call began again). A tool
 *   has result, a line, and output; a send that is waited for has status and result.
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
    // What a run writes and the log does not have yet: { run, attempt, message, text, thinking, calls }. text is
    // { item, bytes } of the message; calls is a map of call to { item, bytes } of its arguments.
    this.writing = null;
    /** What a silent agent waits for, in its words, until anything else of its run comes: `{ run, attempt, text, since }`. */
    this.waitsOn = null;
    this.messages = new Map(); // id → item
    this.bySeq = new Map(); // seq of a message or its edit → item
    /** Seqs of older messages, not loaded, that were read within the loaded entries; pass them to know(). */
    this.missing = new Set();
    this.tickets = new Map(); // id → item
    this.calls = new Map(); // run and call → item of the newest
    this.sends = new Map(); // ticket → item of a message to another thread whose answer the run waits for
    this.open = new Set(); // items of calls and sends that go on
    this.awaited = []; // tickets of sends whose entries follow: { id, run, thread }
    this.keys = new Map(); // name → number of items that it had: a retried run asks its questions again
  }

  /** The message being written, `{ item, bytes }`, or null. */
  get live() { return this.writing?.text ?? null; }

  /** What the agent thinks before or within the message being written, live only: `{ run, attempt, message, text, bytes }`. */
  get thinking() { return this.writing?.thinking ?? null; }

  get items() {
    const written = [this.live, ...(this.writing?.calls.values() ?? [])].filter(Boolean);
    return [...this.read, ...written.map(({ item }) => item), ...this.asked, ...this.unread];
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
    const { writing, waitsOn, firstSeq } = this;
    const entries = [...older.filter(({ seq }) => !firstSeq || seq < firstSeq), ...this.#entries];
    this.#reset();
    this.#entries = [];
    this.#recall(this.#known);
    this.unread = []; // messages that were read are placed while folding
    for (const entry of entries) this.#append(entry);
    this.writing = writing;
    this.waitsOn = waitsOn;
    if (this.live) this.live.item.sender ||= this.#run(writing.run).agent ?? '';
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
      if (ticket.state === 'open' && asks(ticket) && !this.tickets.has(ticket.id)) this.#asks(this.asked, ticket, `ticket:${ticket.id}`);
    }
    for (const entry of entries) this.#said(entry.kind.split('.')[1], entry);
  }

  #append(received) {
    if (received.seq <= this.lastSeq) return;
    this.#entries.push(received);
    const entry = typeof received.body === 'object' && received.body ? received : { ...received, body: {} };
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

  #said(what, entry) {
    const { seq, body } = entry;
    if (what === undefined) {
      this.#message(entry);
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

  #message({ seq, at, run, attempt, body: m }) {
    if (typeof m.role !== 'string') return;
    const item = (m.role === 'assistant' && this.#takeMessage(m.id, run, attempt)) || { kind: 'message', key: `message:${m.id}` };
    const aside = m.visibility === 'internal';
    if (aside && m.role !== 'assistant') return;
    Object.assign(item, {
      id: m.id, seq, at, attempt, role: m.role, sender: m.sender, text: m.text, parts: m.parts, run,
      state: 'read', partial: m.partial, again: false, live: false, aside,
    });
    this.messages.set(m.id, item);
    this.bySeq.set(seq, item);
    if (m.role !== 'assistant') item.state = 'accepted';
    this.#put(m.role === 'assistant' ? this.read : this.unread, item);
  }

  // takeMessage ends the live text and thinking of a message that is in the log now, and returns its item. Arguments
  // stay, because the entries of their calls follow. What was shown live of a different message is dropped.
  #takeMessage(id, run, attempt) {
    const { writing } = this;
    if (!writing || writing.run !== run || writing.attempt > attempt) return null;
    if (writing.message !== id) {
      this.writing = null;
      return null;
    }
    const { text } = writing;
    writing.text = writing.thinking = null;
    return text?.item;
  }

  #ran(what, { seq, at, attempt, body }, run) {
    if (this.writing?.run === run.id && BREAKS.includes(what)) this.writing = null; // what the log has of it came before
    switch (what) {
      case 'queued':
        Object.assign(run, { agent: body.agent, status: 'queued', until: body.available_at });
        for (const id of body.messages ?? []) {
          const item = this.messages.get(id);
          if (item) item.run = run.id;
        }
        return;
      case 'started':
      case 'resumed':
        if (this.writing && (this.writing.run !== run.id || this.writing.attempt < attempt)) this.writing = null; // one run works at a time
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
        for (const item of this.read.filter((one) => one.run === run.id)) {
          if (item.kind === 'end') this.#changed.add(item);
          if (item.state === 'unread') this.#place(item, 'accepted');
        }
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
    for (const item of this.open) if (item.run === run.id) this.#progress(item, { progress: 'void' });
    for (const item of this.tickets.values()) {
      if (item.run === run.id && item.ticket.state === 'open') this.#settle(item, { state: 'void' });
    }
    this.awaited = this.awaited.filter((one) => one.run !== run.id);
    if (status === 'completed') return;
    if (!began) this.#neverRead(status, body.reason, run);
    if (began || status === 'failed' || body.reason === 'cancelled' || body.reason === 'deadline') {
      this.#put(this.read, {
        kind: 'end', key: `end:${seq}`, run: run.id, at, status, reason: body.reason ?? null, error: body.error ?? null, forced: Boolean(body.forced),
      });
    }
  }

  // neverRead marks the messages of a run that ended before it started. A run that was merged into another one leaves
  // its messages to that one.
  #neverRead(status, reason, run) {
    if (reason === 'merged') return;
    const state = reason === 'superseded' || reason === 'interrupted' ? 'superseded' : 'unread';
    for (const item of this.unread.filter((one) => one.run === run.id)) this.#place(item, state);
  }

  // Text of an attempt that broke off is not part of the reply.
  #again(run) {
    const item = this.read.findLast(({ kind, role, run: id }) => kind === 'message' && role === 'assistant' && id === run.id);
    if (!item?.partial) return;
    item.again = true;
    this.#changed.add(item);
  }

  #decided(what, { seq, run, body }) {
    if (what === 'opened') {
      if (asks(body)) {
        this.asked = this.asked.filter(({ ticket }) => ticket.id !== body.id);
        this.#asks(this.read, { ...body, run, state: 'open' }, this.#key(`ticket:${body.id}`));
      } else if (body.kind === 'timer') {
        this.#note(seq, { run, about: 'timer', name: body.name, detail: body.expires_at });
      } else if (body.kind === 'children') {
        this.awaited.push({ id: body.id, run, thread: body.arguments?.thread });
      }
      return;
    }
    const child = this.sends.get(body.ticket);
    if (child?.progress === 'open') this.#answered(child, what, body);
    const item = this.tickets.get(body.ticket);
    if (item?.ticket.state !== 'open') return;
    if (what === 'expired') this.#settle(item, { state: 'expired' });
    else this.#settle(item, { state: 'decided', decision: body.decision, answer: body.answer, reason: body.reason, decided_by: body.decided_by });
  }

  // answered ends a wait for another thread. The outcome is known only if the end of the run answered, not a person.
  #answered(item, what, { answer, decided_by: by }) {
    if (what === 'expired') {
      this.#progress(item, { progress: 'expired' });
      return;
    }
    const { status, reply } = (textOf(by).startsWith('run:') && answer) || {};
    this.#progress(item, { progress: ['failed', 'cancelled'].includes(status) ? 'failed' : 'done', status, result: textOf(reply) });
  }

  #progress(item, fields) {
    Object.assign(item, fields);
    if (item.progress !== 'open') this.open.delete(item);
    this.#changed.add(item);
  }

  #asks(list, ticket, key) {
    const item = { kind: 'ticket', key, run: ticket.run, ticket: { ...ticket } };
    this.tickets.set(ticket.id, item);
    this.#put(list, item);
  }

  #settle(item, outcome) {
    Object.assign(item.ticket, outcome);
    this.#changed.add(item);
  }

  #did(family, what, { seq, run, attempt, body }) {
    if (family === 'step') {
      this.awaited = [];
      this.#note(seq, { run, about: 'step', name: textOf(body.name), progress: 'done' });
    } else if (family === 'send') {
      this.#sent(seq, run, body);
    } else if (family === 'tool' && what === 'started') {
      this.#calls(run, attempt, body);
    } else if (family === 'tool' && what === 'finished') {
      const call = textOf(body.call);
      const item = this.calls.get(`${run}/${call}`) ?? this.#calls(run, attempt, { call });
      this.#progress(item, { progress: body.ok === true ? 'done' : 'failed', result: textOf(body.summary), output: body.output });
    } else if (family === 'effect' && what === 'unknown') {
      this.#note(seq, { run, about: 'effect', name: body.name, detail: 'outcome unknown', progress: 'failed' });
    } else if (family === 'effect' && what === 'settled' && body.error) {
      this.#note(seq, { run, about: 'effect', name: body.name, detail: body.error, progress: 'failed' });
    }
  }

  #sent(seq, run, { thread, answer }) {
    const i = answer ? this.awaited.findIndex((one) => one.run === run && one.thread === thread) : -1;
    const item = this.#note(seq, { run, about: 'send', name: thread, progress: i < 0 ? 'done' : 'open' });
    if (i < 0) return;
    this.sends.set(this.awaited.splice(i, 1)[0].id, item);
    this.open.add(item);
  }

  // calls begins a call. One that begins again, in another attempt or by mistake, is another item.
  #calls(run, attempt, { call: given, name, arguments: detail }) {
    const call = textOf(given);
    const id = `${run}/${call}`;
    const old = this.calls.get(id);
    if (old?.progress === 'open') this.#progress(old, { progress: 'void' });
    if (this.writing?.run === run) this.writing.calls.delete(call);
    const item = this.#put(this.read, {
      kind: 'note', key: this.#key(`tool:${id}`), run, attempt, about: 'tool', name: textOf(name), detail, progress: 'open',
    });
    this.calls.set(id, item);
    this.open.add(item);
    return item;
  }

  #note(seq, fields) {
    return this.#put(this.read, { kind: 'note', key: `note:${seq}`, ...fields });
  }

  // key returns the key of the next item under a name.
  #key(name) {
    const n = (this.keys.get(name) ?? 0) + 1;
    this.keys.set(name, n);
    return n === 1 ? name : `${name}#${n}`;
  }

  // Live text has an offset: a repeated part is cut off. Text of the message after a hole is dropped until it comes
  // again or the message's entry arrives. Thinking and arguments, which may have no entry, go on after a hole.
  #write({ run: id, attempt, message, offset, channel, call, name, text }) {
    const run = this.#run(id);
    if (channel === 'waits') {
      if (attempt < run.attempt || FINISHED.includes(run.status)) return;
      if (this.waitsOn?.run !== id || this.waitsOn.text !== text) this.waitsOn = { run: id, attempt, text, since: new Date().toISOString() };
      return;
    }
    if (this.waitsOn?.run === id) this.waitsOn = null;
    if (!text || !this.#isNew(run, attempt, message, channel)) return;
    if (channel === 'text' || !channel) {
      this.#writeText(this.#writes(run, attempt, message, offset), offset, text);
    } else if (channel === 'thinking') {
      const writing = this.#writes(run, attempt, message);
      writing.thinking = this.#beside(writing.thinking ?? { run: id, attempt, message, text: '', bytes: 0 }, offset, text);
    } else if (channel === 'tool' && !(this.calls.get(`${id}/${call}`)?.attempt >= attempt)) {
      this.#writeCall(this.#writes(run, attempt, message), { call, name, offset, text });
    }
  }

  // isNew reports whether live text can be new: its attempt goes on, and its message is not in the log.
  #isNew(run, attempt, message, channel) {
    if (channel !== 'tool' && this.messages.has(message)) return false;
    if (this.writing?.run === run.id && this.writing.attempt > attempt) return false;
    if (!run.status) return true;
    return attempt > run.attempt ? !FINISHED.includes(run.status) : attempt === run.attempt && run.status === 'running';
  }

  // writes makes a message the one being written, and returns its state. It returns null for a new message whose first
  // text is missing.
  #writes(run, attempt, message, offset = 0) {
    const { writing } = this;
    if (writing?.run === run.id && writing.attempt === attempt && writing.message === message) return writing;
    if (offset > 0) return null;
    run.status ||= 'running';
    this.writing = { run: run.id, attempt, message, text: null, thinking: null, calls: new Map() };
    return this.writing;
  }

  #writeText(writing, offset, text) {
    if (!writing || (!writing.text && offset > 0)) return;
    writing.text ??= {
      bytes: 0,
      item: {
        kind: 'message', key: `message:${writing.message}`, id: writing.message, seq: 0, at: null, attempt: writing.attempt,
        role: 'assistant', sender: this.#run(writing.run).agent ?? '', text: '', parts: [], run: writing.run, state: 'read',
        partial: false, again: false, live: true, aside: false,
      },
    };
    const { item, bytes: shown } = writing.text;
    const bytes = new TextEncoder().encode(text);
    const had = shown - offset;
    if (had < 0 || had >= bytes.length) return;
    item.text += had === 0 ? text : new TextDecoder().decode(bytes.subarray(had));
    writing.text.bytes += bytes.length - had;
    this.#changed.add(item);
  }

  #writeCall({ run, attempt, calls }, { call, name, offset, text }) {
    if (!calls.has(call) && calls.size >= CALLS) return;
    const old = calls.get(call);
    const item = old?.item ?? {
      kind: 'note', key: `calling:${run}/${call}`, run, attempt, about: 'tool', name: textOf(name), detail: '', progress: 'live',
    };
    const { bytes, text: detail } = this.#beside({ text: item.detail, bytes: old?.bytes ?? 0 }, offset, text);
    calls.set(call, { item, bytes });
    if (detail !== item.detail) this.#progress(item, { detail });
  }

  // beside appends to thinking or arguments. A repeat changes nothing; text behind a hole replaces what came before it.
  #beside(had, offset, text) {
    const bytes = new TextEncoder().encode(text);
    if (had.bytes >= offset + bytes.length) return had;
    const follows = had.bytes >= offset;
    const fresh = new TextDecoder().decode(bytes.subarray(follows ? had.bytes - offset : 0));
    const before = follows ? had.text : '';
    if (before.length + fresh.length > TEXT) return had;
    return { ...had, bytes: offset + bytes.length, text: before + fresh };
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
    this.#put(state === 'accepted' ? this.unread : this.read, item);
  }

  #remove(item) {
    this.unread = this.unread.filter((one) => one !== item);
    this.read = this.read.filter((one) => one !== item);
  }
}
