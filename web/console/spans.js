// The log of a run as a tree of spans: pure, without the document and without imports, so that tests can call it.

/** @typedef {'queue' | 'attempt' | 'pause' | 'wait' | 'step' | 'tool' | 'effect' | 'memo' | 'message' | 'question' | 'child' | 'note' | 'more'} SpanKind */
/**
 * How the end of a span is known: from an entry of the log; from the begin of the next attempt or call of its name, the end of
 * its attempt or the end of the run, because the log has no entry of its own end; "now" while it goes on; "unloaded" if the entries that may
 * have its end are not loaded.
 * @typedef {'log' | 'next' | 'attempt' | 'run' | 'now' | 'unloaded'} SpanEnd
 */
/** @typedef {'done' | 'failed' | 'running' | 'waiting' | 'queued' | 'lost' | 'cancelled' | 'unknown'} SpanState */
/**
 * A part of a run's time. from and to are milliseconds since 1970, and to is never before from.
 * @typedef {object} Span
 * @property {string} id unique in the run, the same for the same entries
 * @property {SpanKind} kind
 * @property {string} name untrusted text, at most MOST_NAME characters
 * @property {number} from
 * @property {number} to
 * @property {boolean} open it goes on
 * @property {SpanEnd} end
 * @property {SpanState} state
 * @property {[string, any][]} detail terms and untrusted JSON values
 * @property {Span[]} children in the order of the log
 * @property {boolean} before it began before its parent
 * @property {boolean} outlives it ended after its parent
 * @property {boolean} backwards the clock went back in it: its end was written with an earlier time than its begin
 * @property {number} attempt
 * @property {number} seq the entry that began it, 0: none
 * @property {string} run of a child: its id
 * @property {number} count of kind more: how many spans it sums up
 */
/** @typedef {{ thread: string, seq: number, kind: string, run: string, attempt: number, at: string, body: any }} LogEntry */
/** @typedef {{ id: string, agent?: string, thread?: string, title?: string, status: string, created_at: string, started_at?: string | null, finished_at?: string | null }} RunRow */
/** @typedef {{ from: number, to: number, spans: Span[], backwards: boolean }} Tree */

const MOST_NAME = 200;

/** Whether a run with this status has ended. */
export const ended = (status) => status === 'completed' || status === 'failed' || status === 'cancelled';

const RESCHEDULED = {
  retry: ['failed', 'Waits for its next try'], lease_lost: ['lost', 'Waits for another worker'],
  released: ['done', 'Given back, in the queue'], gave_way: ['waiting', 'Lets another run go first'],
};
const ENDS = { 'run.completed': 'done', 'run.failed': 'failed', 'run.cancelled': 'cancelled' };
const QUESTIONS = { approval: 'Approval', input: 'Question', event: 'Event', timer: 'Timer', children: 'Answer of another run' };
const VERDICTS = { approve: 'approved', deny: 'denied', answer: 'answered' };

/**
 * The spans of a run. entries are those of the run that are loaded, in order of seq. Of those between the seqs of the gap,
 * only the kinds that gapKinds names are loaded. children are the runs that it sent, as far as they are loaded.
 * @param {RunRow} run
 * @param {LogEntry[]} entries
 * @param {{ now: number, gap?: { after: number, before: number } | null, children?: RunRow[] }} more
 * @returns {Tree}
 */
export function spansOf(run, entries, { now, gap = null, children = [] }) {
  const builder = new Builder(run, now, gap, new Map(children.map((child) => [child.id, child])));
  for (const entry of entries) builder.read(entry);
  builder.finish();
  const spans = builder.spans;
  const tree = { from: Infinity, to: -Infinity, spans, backwards: false };
  mark(tree, spans, null);
  if (spans.length === 0) tree.from = tree.to = time(run.created_at, now);
  return tree;
}

/** The kinds of entries that say when attempts, waits and questions begin and end. */
export const gapKinds = [
  'run.queued', 'run.retried', 'run.started', 'run.resumed', 'run.rescheduled', 'run.waiting', 'run.completed', 'run.failed', 'run.cancelled',
  'ticket.opened', 'ticket.decided', 'ticket.expired', 'send',
];

// mark finds out which spans begin before or end after their parent, and the time that all cover.
function mark(tree, spans, parent) {
  for (const span of spans) {
    span.before = parent !== null && span.from < parent.from;
    span.outlives = parent !== null && span.to > parent.to;
    tree.from = Math.min(tree.from, span.from);
    tree.to = Math.max(tree.to, span.to);
    tree.backwards ||= span.backwards;
    mark(tree, span.children, span);
  }
}

const time = (text, otherwise) => {
  const at = Date.parse(text);
  return Number.isNaN(at) ? otherwise : at;
};

// string returns a value that an agent may have made anything of as a short text.
function string(value, otherwise = '') {
  if (typeof value === 'string') return value.slice(0, MOST_NAME) || otherwise;
  return typeof value === 'number' ? String(value) : otherwise;
}

// unmarked returns the begin of a text without the commonest marks of Markdown.
const unmarked = (text) => string(typeof text === 'string' ? text.slice(0, 2 * MOST_NAME).replace(/\*\*|`+|^#{1,6} /gm, '').trim() : '', 'Message');

/** @returns {Span} */
function span(id, kind, name, from, more = {}) {
  return {
    id, kind, name, from, to: from, open: false, end: 'log', state: 'done', detail: [], children: [], before: false, outlives: false,
    backwards: false, attempt: 0, seq: 0, run: '', count: 0, ...more,
  };
}

/** Ends a span. A clock that went back gives it no negative length. */
function close(of, at, end, state) {
  of.backwards = at < of.from;
  of.to = Math.max(of.from, at);
  of.open = end === 'now';
  of.end = end;
  if (state) of.state = state;
}

const given = (pairs) => pairs.filter(([, value]) => value !== undefined && value !== null && value !== '');

class Builder {
  /** @type {Span[]} */
  spans = [];
  /** @type {Span | null} */
  #attempt = null; // that runs
  /** @type {Span | null} */
  #between = null; // the queue, pause or wait that goes on
  #last = 0; // time of the last entry
  #step = 0; // time of the last step of the attempt, or of its begin
  #attempts = new Map(); // number: span
  #open = new Map(); // 'tool ID' and so on: span without an end yet
  #late = new Map(); // effects whose attempt ended first: a call that has begun is recorded also after a stop
  #known = new Set(); // names of effects that were begun
  #tickets = new Map(); // id: { span, home }
  #sent = new Set(); // ids of children that have a span

  constructor(run, now, gap, children) {
    this.run = run;
    this.now = now;
    this.gap = gap;
    this.children = children;
    this.#last = time(run.created_at, now);
  }

  read(entry) {
    const at = this.#last = time(entry.at, this.#last);
    const body = entry.body !== null && typeof entry.body === 'object' ? entry.body : {};
    const { kind } = entry;
    if (kind in ENDS) this.#end(entry, at, body);
    else if (kind.startsWith('run.')) this.#readRun(entry, at, body);
    else if (kind.startsWith('ticket.')) this.#readTicket(entry, at, body);
    else if (kind.startsWith('effect.')) this.#readEffect(entry, at, body);
    else if (kind.startsWith('tool.')) this.#readTool(entry, at, body);
    else if (kind === 'step') this.#readStep(entry, at, body);
    else if (kind === 'send') this.#readSend(entry, at, body);
    else if (kind === 'message' && body.role === 'assistant') this.#add(entry, span(`m${entry.seq}`, 'message', unmarked(body.text), at, { state: body.partial ? 'unknown' : 'done', detail: given([['Text', body.text], ['Incomplete', body.partial ? 'its attempt ended before it was complete' : null]]) }));
    else if (kind === 'message.read') this.#add(entry, span(`m${entry.seq}`, 'note', 'Read a message that was steered into it', at));
  }

  // home returns the list of the spans of the attempt of an entry, or of the run if it is of none.
  #home(entry) { return this.#attempts.get(entry.attempt)?.children ?? this.spans; }

  #add(entry, made) {
    made.attempt = entry.attempt;
    made.seq = entry.seq;
    this.#home(entry).push(made);
    return made;
  }

  #readRun(entry, at, body) {
    switch (entry.kind) {
      case 'run.queued':
      case 'run.retried': {
        const again = entry.kind === 'run.retried';
        this.#pass(at, 'log');
        this.#begin(entry, 'queue', again ? 'Queue, after a retry by hand' : 'Queue', at, 'queued', again ? [['Retried by', body.by], ['Start', body.fresh ? 'from the beginning: what was recorded was dropped' : 'goes on with what was recorded']] : [['Not before', time(body.available_at, at) > at ? body.available_at : null]]);
        break;
      }
      case 'run.started':
      case 'run.resumed':
        this.#endAttempt(entry, at, 'lost', 'next');
        this.#pass(at, 'log');
        this.#attempt = span(`a${entry.attempt}.${entry.seq}`, 'attempt', `Attempt ${entry.attempt}`, at, { attempt: entry.attempt, seq: entry.seq, state: 'running', detail: given([['Worker', body.worker]]) });
        this.spans.push(this.#attempt);
        this.#attempts.set(entry.attempt, this.#attempt);
        this.#step = at;
        break;
      case 'run.rescheduled': {
        const [state, name] = RESCHEDULED[body.reason] ?? ['unknown', 'Waits for its next attempt'];
        this.#endAttempt(entry, at, state, 'log', body.error);
        this.#pass(at, 'log');
        this.#begin(entry, 'pause', name, at, 'queued', [['Reason', body.reason], ['Next try', body.available_at], ['Behind', body.behind]]);
        break;
      }
      case 'run.waiting': {
        this.#endAttempt(entry, at, 'waiting', 'log');
        this.#pass(at, 'log');
        const wait = this.#begin(entry, 'wait', 'Waits', at, 'waiting', [['Until', body.until], ['Ends with', body.any ? 'the first of its questions' : null]]);
        this.#take(wait, Array.isArray(body.tickets) ? body.tickets : []);
        break;
      }
      case 'run.stop_requested':
        this.#add(entry, span(`n${entry.seq}`, 'note', 'Asked to stop', at, { state: 'cancelled', detail: given([['By', body.by], ['Reason', body.reason]]) }));
    }
  }

  // take moves the questions that the run waits for to the wait.
  #take(wait, tickets) {
    const names = [];
    for (const id of tickets) {
      const found = this.#tickets.get(id);
      if (!found) continue;
      names.push(found.span.name);
      const at = found.home.indexOf(found.span);
      if (at >= 0) found.home.splice(at, 1);
      found.home = wait.children;
      wait.children.push(found.span);
    }
    if (names.length > 0) wait.name = `Waits: ${names[0]}${names.length > 1 ? ` and ${names.length - 1} more` : ''}`.slice(0, MOST_NAME);
  }

  #begin(entry, kind, name, at, state, detail) {
    const made = span(`${kind}${entry.seq}`, kind, name, at, { seq: entry.seq, state, detail: given(detail) });
    this.spans.push(made);
    this.#between = made;
    return made;
  }

  // pass ends the queue, pause or wait that goes on.
  #pass(at, end, state = 'done') {
    if (this.#between) close(this.#between, at, end, state);
    this.#between = null;
  }

  // endAttempt ends the attempt that runs, and what the log has no end of in it.
  #endAttempt(entry, at, state, end, error) {
    const of = this.#attempt;
    if (!of) return;
    this.#attempt = null;
    close(of, at, end, state);
    if (end === 'next') of.detail.push(['End', 'The log has no end of it: it is drawn to the begin of the next attempt']);
    if (error !== null && typeof error === 'object') of.detail.push(...given([['Error', error.message], ['Class', error.class]]));
    this.#leave(of, at, entry.seq, 'attempt');
  }

  // leave ends what goes on in an attempt that ends, or that goes on until now, at seq.
  #leave(attempt, at, seq, end) {
    const { after, before } = this.gap ?? { after: Infinity, before: 0 };
    if (attempt.seq < before && seq > after) attempt.detail.push(['Loaded', 'Not all of its entries are loaded']);
    for (const [key, one] of this.#open) {
      const hidden = one.seq <= after && seq > after; // its end may be in the gap
      close(one, at, hidden ? 'unloaded' : end, end === 'now' && !hidden ? 'running' : 'unknown');
      if (one.kind === 'effect') this.#late.set(key, one);
    }
    this.#open.clear();
  }

  #end(entry, at, body) {
    const state = ENDS[entry.kind];
    (this.#attempt ?? this.#between)?.detail.push(...given([['Ended by', body.by], ['Reason', body.reason]]));
    this.#endAttempt(entry, at, state, 'log', body.error);
    this.#pass(at, 'log', state);
    for (const { span: one } of this.#tickets.values()) if (one.end === 'now') close(one, at, 'run', 'cancelled');
  }

  #readStep(entry, at, body) {
    const of = this.#add(entry, span(`s${entry.seq}`, 'step', string(body.name, 'Step'), Math.min(this.#step, at), { detail: given([['Usage', body.usage]]) }));
    of.backwards = this.#step > at;
    of.to = at;
    this.#step = at;
  }

  // call begins a tool or an effect: it goes on until its end is found.
  #call(entry, key, made) {
    made.end = 'now';
    made.state = 'running';
    const same = this.#open.get(key);
    if (same) close(same, made.from, 'next', 'unknown');
    this.#open.set(key, this.#add(entry, made));
  }

  #readTool(entry, at, body) {
    const key = `tool ${entry.attempt} ${string(body.call)}`;
    if (entry.kind === 'tool.started') {
      this.#call(entry, key, span(`t${entry.seq}`, 'tool', string(body.name, 'Tool'), at, { detail: given([['Arguments', body.arguments]]) }));
    } else if (entry.kind === 'tool.finished') {
      let of = this.#open.get(key);
      this.#open.delete(key);
      of ??= this.#add(entry, span(`t${entry.seq}`, 'tool', string(body.name, 'Tool'), at, { detail: [['Begin', 'The log has no begin of it, or it is not loaded']] }));
      close(of, at, 'log', body.ok === false ? 'failed' : 'done');
      of.detail.push(...given([['Summary', body.summary], ['Output', body.output]]));
    }
  }

  #readEffect(entry, at, body) {
    const name = string(body.name, 'Effect');
    const key = `effect ${entry.attempt} ${name}`;
    if (entry.kind === 'effect.intended') {
      this.#known.add(name);
      this.#call(entry, key, span(`e${entry.seq}`, 'effect', name, at, { detail: given([['Key', body.key]]) }));
      return;
    }
    let of = this.#open.get(key) ?? this.#late.get(key);
    this.#open.delete(key);
    this.#late.delete(key);
    if (!of) {
      const known = this.#known.has(name);
      of = this.#add(entry, span(`e${entry.seq}`, known ? 'effect' : 'memo', name, at, { detail: known ? [] : [['Begin', 'The log has only its result']] }));
    }
    close(of, at, 'log', entry.kind === 'effect.unknown' ? 'unknown' : body.error ? 'failed' : 'done');
    if (entry.kind === 'effect.unknown') of.detail.push(['Outcome', 'unknown: its worker ended during the call']);
    of.detail.push(...given([['Error', body.error], ['Result', body.cut ? 'not kept: no JSON, or too large' : body.result]]));
  }

  #readTicket(entry, at, body) {
    if (entry.kind === 'ticket.opened') {
      const what = QUESTIONS[body.kind] ?? 'Question';
      const label = string(body.prompt) || string(body.name);
      const made = this.#add(entry, span(`q${entry.seq}`, 'question', label ? `${what}: ${label}`.slice(0, MOST_NAME) : what, at, { end: 'now', state: 'waiting', detail: given([['Prompt', body.prompt], ['Action', body.action], ['Arguments', body.arguments], ['Expires', body.expires_at]]) }));
      const same = this.#tickets.get(body.id)?.span;
      if (same?.end === 'now') close(same, at, 'next', 'unknown');
      this.#tickets.set(body.id, { span: made, home: this.#home(entry) });
      return;
    }
    const found = this.#tickets.get(body.ticket);
    if (!found) return;
    const verdict = entry.kind === 'ticket.expired' ? 'expired' : VERDICTS[body.decision] ?? 'decided';
    close(found.span, at, 'log', verdict === 'denied' || verdict === 'expired' ? 'cancelled' : 'done');
    found.span.detail.push(...given([['Decision', verdict], ['By', body.decided_by], ['Reason', body.reason], ['Answer', body.answer]]));
  }

  #readSend(entry, at, body) {
    const id = string(body.run);
    const made = this.#add(entry, childSpan(this.children.get(id) ?? null, id, at, this.now));
    made.id = `c${entry.seq}`;
    if (this.#sent.has(id)) made.detail.push(['Message', 'another one to the same run']);
    this.#sent.add(id);
    made.detail.push(...given([['Thread', body.thread], ['Answer', body.answer ? 'expected' : 'not expected']]));
  }

  finish() {
    const over = ended(this.run.status);
    const at = over ? time(this.run.finished_at, this.#last) : this.now;
    const end = over ? 'run' : 'now';
    const attempt = this.#attempt;
    if (attempt) {
      close(attempt, at, end, over ? 'unknown' : 'running');
      if (over) attempt.detail.push(['End', 'The log has no end of it, or it is not loaded: it is drawn to the end of the run']);
      this.#leave(attempt, at, Infinity, end);
    }
    for (const one of this.#open.values()) close(one, one.from, 'attempt', 'unknown'); // of an attempt that had ended
    if (this.#between) this.#pass(at, end, over ? 'unknown' : this.#between.state);
    for (const { span: one } of this.#tickets.values()) if (one.end === 'now') close(one, at, end, over ? 'cancelled' : 'waiting');
    for (const [id, child] of this.children) if (!this.#sent.has(id)) this.spans.push(childSpan(child, id, time(child.created_at, at), this.now));
  }
}

/**
 * The span of a run that another one sent, or that descends from it. Without its row it has no length.
 * @param {RunRow | null} row
 * @returns {Span}
 */
function childSpan(row, id, at, now) {
  const name = string(row?.title) || string(row?.agent) || 'Run of another thread';
  const made = span(`c${id}`, 'child', name, at, { run: id, state: 'unknown' });
  if (!row) {
    made.end = 'unloaded';
    return made;
  }
  made.from = time(row.created_at, at);
  const over = ended(row.status);
  close(made, over ? time(row.finished_at, now) : now, over ? 'log' : 'now', { completed: 'done', failed: 'failed', cancelled: 'cancelled' }[row.status] ?? row.status);
  made.detail.push(...given([['Agent', row.agent], ['Status', row.status]]));
  return made;
}

const count = (n) => n.toLocaleString();

/**
 * The first spans of a list, and one of kind more that sums up the others.
 * @param {Span[]} spans
 * @returns {Span[]}
 */
export function sumUp(spans, most) {
  if (spans.length <= most + 1) return spans; // the sum would take the row of the one span that it hides
  const rest = spans.slice(most);
  const failed = rest.filter(({ state }) => state === 'failed').length;
  let from = Infinity;
  let to = -Infinity;
  for (const one of rest) [from, to] = [Math.min(from, one.from), Math.max(to, one.to)];
  const sum = span(`more ${rest[0].id}`, 'more', `${count(rest.length)} more${failed > 0 ? `, ${count(failed)} failed` : ''}`, from, { count: rest.length, state: failed > 0 ? 'failed' : 'done', attempt: rest[0].attempt });
  close(sum, to, rest.some(({ open }) => open) ? 'now' : 'log');
  return [...spans.slice(0, most), sum];
}

/**
 * Two attempts beside each other: for each span of either one row { kind, name, a, b }, with null where one has none. The
 * n-th span of a kind and name goes with the n-th of the other.
 * @param {Span} left
 * @param {Span} right
 */
export function compare(left, right) {
  const keys = (spans) => {
    const seen = new Map();
    return spans.map((one) => {
      const key = `${one.kind} ${one.kind === 'message' ? '' : one.name}`;
      seen.set(key, (seen.get(key) ?? 0) + 1);
      return `${key} ${seen.get(key)}`;
    });
  };
  const [ofLeft, ofRight] = [keys(left.children), keys(right.children)];
  const at = new Map(ofRight.map((key, i) => [key, i]));
  const taken = new Set(ofLeft);
  /** @type {{ kind: SpanKind, name: string, a: Span | null, b: Span | null }[]} */
  const rows = [];
  let next = 0;
  const rest = (until) => { // those that only the right one has, up to the place of its match
    for (; next < until; next++) if (!taken.has(ofRight[next])) rows.push(row(null, right.children[next]));
  };
  left.children.forEach((one, i) => {
    const match = at.get(ofLeft[i]);
    if (match !== undefined) rest(match);
    rows.push(row(one, match === undefined ? null : right.children[match]));
  });
  rest(ofRight.length);
  return rows;
}

const row = (a, b) => ({ kind: (a ?? b).kind, name: (a ?? b).name, a, b });

/**
 * What a retry of a run finds in its log: names of effects with a result, which are not called again; of those that failed or
 * whose outcome is unknown; the number of decided questions, and of messages to other threads.
 * @param {LogEntry[]} entries
 */
export function keptOf(entries) {
  const effects = new Map();
  const decided = new Set();
  let sent = 0;
  for (const { kind, body } of entries) {
    if (kind === 'run.retried' && body?.fresh === true) {
      effects.clear();
      decided.clear();
    } else if (kind.startsWith('effect.')) {
      effects.set(string(body?.name, 'Effect'), kind !== 'effect.settled' ? 'unknown' : body?.error ? 'failed' : 'done');
    } else if (kind === 'ticket.decided') {
      decided.add(body?.ticket);
    } else if (kind === 'send') {
      sent += 1;
    }
  }
  const of = (state) => [...effects].filter(([, is]) => is === state).map(([name]) => name);
  return { done: of('done'), failed: of('failed'), unknown: of('unknown'), decided: decided.size, sent };
}
