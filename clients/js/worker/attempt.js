// One attempt of one run: its claim, its numbered writes, and how it ends.

import { namesNoBlob } from './blobs.js';
import { Failure, invalid, LeaseLost, Parked, Stopped } from './errors.js';
import { current, Flusher } from './flush.js';

const longest = 2 ** 31 - 1; // ms; a longer timer fires at once

/** Codes after which no write can succeed. */
const unusable = new Set(['lease_lost', 'unauthenticated', 'forbidden', 'not_found', 'gone']);

export class Attempt {
  claim;
  run;
  state;
  checkpoint;
  tickets;
  /** Whether there may be steered messages to read. */
  steered;
  /** Seq of the last steered message that the handler has. */
  handed = 0;
  /** Tickets that the run has to wait for, by name, with their questions if they are new. */
  parked = new Map();
  text = new Flusher(this);
  /** No write is possible any more: the claim is lost, or the attempt is settled. */
  over = false;
  /** The settle is under way, so the claim may end without having been lost. */
  settling = false;
  /** A write has had no usable answer: nothing more may go out under its number. */
  unsure = false;
  /** The number of the worker contract of the server. */
  contract;
  /** What the silent handler says it waits for; the next text or step clears it. */
  waitsOn = '';
  #link;
  #path;
  #number;
  #tail = Promise.resolve(); // of the queue of writes
  #calls = new Set(); // calls of the handler that are under way
  #begun = performance.now();
  #deadline = 0; // in the time of performance.now, once it is watched
  #timer = null; // of the deadline
  #ending = new AbortController(); // of the handler
  #lost = new AbortController(); // of the writes

  constructor(link, claim) {
    this.#link = link;
    this.claim = claim;
    this.run = claim.run;
    this.state = claim.state ?? null;
    this.checkpoint = claim.checkpoint ?? null;
    this.tickets = new Map((claim.tickets ?? []).map((ticket) => [ticket.name, ticket]));
    this.budgetLeft = claim.run.budget?.left ?? null; // as of the last step
    this.steered = (claim.steers ?? []).length > 0;
    this.#number = claim.run.steps + 1;
    this.#path = `v1/claims/${encodeURIComponent(claim.claim)}`;
  }

  /** Ends the attempt at its deadline, which a step can move. Returns a function that stops the timer. */
  watch() {
    if (this.claim.deadline_ms > 0) this.#moveDeadline(this.#begun + this.claim.deadline_ms);
    return () => clearTimeout(this.#timer);
  }

  #moveDeadline(end) {
    if (end <= this.#deadline) return;
    this.#deadline = end;
    clearTimeout(this.#timer);
    const look = () => {
      const rest = this.#deadline - performance.now();
      if (rest > 0) this.#timer = setTimeout(look, Math.min(Math.ceil(rest), longest));
      else this.end(new Failure(`the attempt took longer than ${Math.round(this.#deadline - this.#begun)} ms`));
    };
    look();
  }

  get signal() { return this.#ending.signal; }

  get lost() { return this.#lost.signal.aborted; }

  /** Aborts the handler, and the writes too if the claim is lost. */
  end(reason) {
    if (reason instanceof LeaseLost) {
      this.over = true;
      this.text.stop();
      this.#lost.abort(reason);
    }
    this.#ending.abort(reason);
  }

  /** Throws if a call of the handler must not begin: after a stop or a park, unless that is allowed. */
  check({ stopped = false, parked = false } = {}) {
    if (this.lost) throw this.#lost.signal.reason;
    if (this.over) throw new LeaseLost('the attempt has ended');
    if (this.parked.size > 0 && !parked) throw new Parked();
    if (!stopped) this.signal.throwIfAborted();
  }

  /** Runs a job after all that were queued before. */
  inTurn(job) {
    const done = this.#tail.then(job);
    this.#tail = done.catch(() => {});
    return done;
  }

  /** Makes the end of the attempt wait for a call of the handler, such as an effect whose outcome must be recorded. */
  track(call) {
    this.#calls.add(call);
    // A rejection that the handler does not await must not end the process, which serves other runs too.
    call.catch(() => {}).then(() => this.#calls.delete(call));
    return call;
  }

  /** Resolves once no call and no write is under way. */
  async quiet() {
    for (let tail; this.#calls.size > 0 || tail !== this.#tail;) {
      tail = this.#tail;
      await Promise.allSettled([...this.#calls, tail]);
    }
  }

  /** Calls an operation under the claim. A refusal after which no write can succeed ends the attempt. */
  async post(operation, body, options) { return this.#call('POST', operation, { body, ...options }); }

  async get(operation, query) { return (await this.#call('GET', operation, { query })).items ?? []; }

  async page(operation, query, options) { return this.#call('GET', operation, { query, ...options }); }

  async #call(method, operation, options) {
    try {
      const path = `${this.#path}/${operation}`;
      const answer = await this.#link.call(method, path, { signal: this.#lost.signal, ...options });
      this.obey(answer ?? {});
      return answer;
    } catch (error) {
      if (!unusable.has(error.code) || this.settling || namesNoBlob(error)) throw error;
      this.end(new LeaseLost(`the claim ${this.claim.claim} is lost: ${error.detail}`));
      throw this.#lost.signal.reason;
    }
  }

  /** Takes over what an answer or a renewal orders. */
  obey({ stop, steered }) {
    if (typeof stop === 'string') this.end(new Stopped(stop || 'the run was asked to stop'));
    if (steered === true) this.steered = true;
  }

  /**
   * Commits one write under the next number. With text it ends the message being written, if that has text or parts.
   * Callers set it for every step that records progress, as the engine inside the server does.
   */
  commit(body, { text = false, parts } = {}) {
    const taken = text ? this.text.take() : null;
    this.waitsOn = '';
    return this.inTurn(async () => {
      const draft = taken && current(taken);
      const message = (draft && messageOf(draft, parts)) ?? undefined;
      let ended = false; // the message
      try {
        if (this.over && !this.lost) throw new LeaseLost('the attempt has ended');
        const answer = await this.#write({ number: this.#number, ...body, message, covers: this.handed || undefined });
        if (body.step?.extend && answer.deadline_ms > 0) this.#moveDeadline(performance.now() + answer.deadline_ms);
        this.budgetLeft = answer.budget_left ?? this.budgetLeft;
        ended = message !== undefined;
        this.#number++;
      } finally {
        if (draft && !ended) this.text.keep(draft);
      }
    });
  }

  // A write whose outcome stays unknown ends the attempt. If another write had the same number, the server would refuse
  // it, or would have it in place of the first.
  async #write(body) {
    const text = this.#link.encode(body);
    try {
      return await this.post('entries', text);
    } catch (error) {
      if (knowsNoExtend(error)) return this.#write({ ...body, step: { ...body.step, extend: undefined } });
      if (this.lost || isRefusal(error)) throw error;
      this.unsure = true;
      const reason = `the server did not say whether it has step ${body.number} (${error.detail ?? error.message})`;
      this.end(new LeaseLost(`${reason}; another attempt goes on`));
      throw this.#lost.signal.reason;
    }
  }

  /** Ends the attempt for the handler: its later calls throw LeaseLost. Returns the draft of the unfinished message. */
  close() {
    this.over = true;
    this.text.stop();
    return this.text.take();
  }

  /**
   * Settles, with the text or without it, after the writes that are under way. The number is that of the next write, so
   * a repeat is recognized.
   */
  settle(body, taken) {
    return this.inTurn(() => {
      this.settling = true;
      return this.post('settle', { number: this.#number, ...body, message: taken && messageOf(current(taken)) });
    });
  }

  /** Registers a ticket that the run has to wait for, and throws. */
  park(name, ask) {
    this.parked.set(name, ask);
    throw new Parked();
  }
}

/** The message of a draft, undefined if it is empty. */
function messageOf(draft, parts = []) {
  const { text, truncated } = draft.whole;
  if (text === '' && parts.length === 0) return undefined;
  return { text, truncated: truncated || undefined, parts: parts.length > 0 ? parts : undefined };
}

/** Whether an older server has refused a step because it does not know the field extend. */
function knowsNoExtend({ status, fields = [] }) {
  const isUnknown = ({ location, message }) => location === 'body.step.extend' && message === 'unknown field';
  return status === 422 && fields.some(isUnknown);
}

/** Whether the server has said that it did not do what it was asked for. */
function isRefusal({ status }) { return status >= 400 && status < 500; }

/** Throws for what cannot be the name of a ticket, an effect or a send. */
export function checkName(name, what) {
  const usable = typeof name === 'string' && name !== '' && !name.includes('\0');
  if (!usable) throw invalid(`${what} needs a name: a text that is the same in each attempt`);
}
