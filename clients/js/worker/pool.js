// The slots of a worker: claims runs for the free ones, round by round.

import { strange } from '../answer.js';
import { Alarm } from '../pause.js';
import { Attempt } from './attempt.js';
import { invalid, Stopped } from './errors.js';
import { Lease, mayPass } from './lease.js';
import { Link } from './link.js';
import { stderr, withAttributes } from './log.js';
import { start } from './run.js';

const wait = 30; // seconds that a claim waits for a run
const contract = 1; // the number of the worker contract that this package needs
const tooOld = 'is older than this package; update the server, or install an older package';
const patience = (wait + 30) * 1000; // ms for one try of a claim

export class Pool {
  #handlers;
  #options;
  #link;
  #log;
  #running = new Set(); // attempts whose handler has not returned
  #unsettled = new Set(); // promises of attempts that have not ended for the server
  #lease = null;
  #stop = new AbortController();
  #done = null;
  #found = false; // a server has registered the worker
  #registered;
  /** Resolves at the first registration; never rejects. */
  ready = new Promise((resolve) => { this.#registered = resolve; });
  #wake = () => {};
  #onLast = () => {}; // aborts a claim that leaves out runs on their last attempt, once the worker may take one

  constructor(handlers, options) {
    this.#handlers = handlers;
    this.#options = options;
    this.#link = new Link({ url: options.url, token: options.token, fetch: options.fetch ?? globalThis.fetch });
    this.#log = withAttributes(options.log ?? stderr, {});
  }

  /** Serves until stop, or until the server refuses the worker for good. */
  run() {
    this.#done = this.#serve();
    return this.#done;
  }

  /** Claims nothing more, and waits for the running attempts. After within milliseconds it ends them. */
  async stop(within) {
    this.#stop.abort();
    this.#wake();
    const cut = within !== undefined && setTimeout(() => {
      for (const attempt of this.#running) attempt.end(new Stopped('the worker is shutting down'));
    }, within);
    try {
      await this.#done;
    } finally {
      clearTimeout(cut);
    }
  }

  get #hasLastAttempt() { return [...this.#running].some(({ claim }) => onLastAttempt(claim)); }

  get #stopping() { return this.#stop.signal.aborted; }

  async #serve() {
    try {
      while (!this.#stopping) {
        this.#lease = await this.#register();
        if (!this.#lease) break;
        await this.#claim(this.#lease);
        if (this.#lease.error) throw this.#refusal(this.#lease.error);
        if (this.#stopping) break;
        this.#log.warn('lease lost; registering again', { reason: this.#lease.signal.reason?.message });
      }
    } finally {
      while (this.#unsettled.size > 0) await Promise.all(this.#unsettled);
      await this.#lease?.leave();
      this.#log.info('worker stopped');
    }
  }

  /** Registers the worker. It retries during an outage, and throws a refusal. Returns null if the worker stops. */
  async #register() {
    const { retry } = this.#options;
    const body = { agents: Object.keys(this.#handlers), max: 0, pid: globalThis.process?.pid, retry };
    const told = new Set(); // reasons to wait that are logged already
    for (;;) {
      const asked = performance.now();
      let answer;
      try {
        answer = await this.#link.post('v1/claims', body, { once: true, signal: this.#stop.signal });
        if (typeof answer?.worker !== 'string' || !(answer.lease_ms > 0)) throw strange(200, this.#link.base);
      } catch (error) {
        if (this.#stopping) return null;
        const misled = error.misplaced || error.unresolved; // a wrong address, unless a server was found there before
        if (!mayPass(error) || (misled && !this.#found)) throw this.#refusal(error);
        const { href: server } = this.#link.base;
        if (!told.has(error.detail)) this.#log.warn('worker waits for the server', { server, error: error.detail });
        told.add(error.detail);
        await this.#pause(Math.max(error.retryAfter ?? 0, 500 + 1500 * Math.random()));
        continue;
      }
      if (!(answer.contract >= contract)) throw invalid(`the server at ${this.#link.base.origin} ${tooOld}`);
      this.#found = true;
      this.#log.info('worker registered', { worker: answer.worker, agents: body.agents });
      this.#registered();
      return new Lease(this.#link, this.#log, answer, asked);
    }
  }

  /** Claims for the free slots while the lease lasts. One round is outstanding at a time. */
  async #claim(lease) {
    const signal = AbortSignal.any([lease.signal, this.#stop.signal]);
    for (let round = 1; !this.#stopping && !lease.signal.aborted; round++) {
      await this.#free(lease);
      if (this.#stopping || lease.signal.aborted) return;
      const claims = await this.#round(lease, round, signal);
      for (const claim of claims) this.#start(lease, claim);
      lease.round = round;
    }
  }

  // Asks for a round until it is answered: the server returns what it has claimed under the same number. A request that
  // leaves out runs on their last attempt is aborted and repeated as soon as the worker may take such a run. When the
  // worker stops, leave() releases what an unanswered round has claimed. An older server does not do that: the round is
  // then repeated without agents to claim for, and its claims are released here.
  async #round(lease, round, signal) {
    const ask = { worker: lease.id, round, retry: this.#options.retry };
    for (;;) {
      const alone = !this.#hasLastAttempt;
      const max = this.#options.slots - this.#running.size;
      const cut = new AbortController();
      const abort = () => cut.abort(signal.reason);
      if (!alone) this.#onLast = () => cut.abort();
      if (signal.aborted) abort();
      signal.addEventListener('abort', abort, { once: true });
      try {
        const options = { once: true, timeout: patience, signal: cut.signal };
        const answer = await this.#link.post('v1/claims', { ...ask, max, alone, wait: `${wait}s` }, options);
        lease.contract = answer.contract;
        return answer.claims ?? [];
      } catch (error) {
        if (lease.signal.aborted) return [];
        if (this.#stopping) break;
        if (cut.signal.aborted) continue;
        if (!lease.judge(error)) return [];
        this.#log.warn('claim not answered; repeating it', { round, error: error.message });
        await this.#pause(Math.max(error.retryAfter ?? 0, 100 + 900 * Math.random()));
      } finally {
        this.#onLast = () => {};
        signal.removeEventListener('abort', abort);
      }
    }
    if (lease.releases) return [];
    const none = Object.fromEntries(Object.keys(this.#handlers).map((name) => [name, 0]));
    try {
      const { claims } = await this.#link.post('v1/claims', { ...ask, max: 1, agents: none }, { signal: lease.signal });
      const attempts = (claims ?? []).map((claim) => new Attempt(this.#link, claim));
      for (const attempt of attempts) lease.attempts.set(attempt.claim.claim, attempt); // they end with the lease
      await Promise.all(attempts.map((attempt) => attempt.settle({ outcome: 'release' })));
    } catch (error) {
      this.#log.warn('claims of the last round not given back; they end with the lease', { error: error.message });
    }
    return [];
  }

  #start(lease, claim) {
    const attempt = new Attempt(this.#link, claim);
    attempt.contract = lease.contract;
    const { id: run, thread, agent, attempt: count } = attempt.run;
    const log = withAttributes(this.#log, { run, thread, agent, attempt: count });
    log.debug('attempt started');
    lease.attempts.set(claim.claim, attempt);
    this.#running.add(attempt);
    const { settled, returned } = start(attempt, this.#handlers[agent], { grace: this.#options.grace, log });
    const ended = settled.then(async (done) => {
      if (!done) await lease.giveBack(claim.claim);
      lease.attempts.delete(claim.claim);
      this.#unsettled.delete(ended);
    });
    this.#unsettled.add(ended);
    Promise.all([ended, returned]).then(() => {
      this.#running.delete(attempt);
      this.#wake();
      if (!this.#hasLastAttempt) this.#onLast();
    });
    if (lease.signal.aborted) attempt.end(lease.signal.reason);
  }

  /** Resolves once a slot is free, the worker stops, or the lease ends. */
  async #free(lease) {
    while (this.#running.size >= this.#options.slots && !this.#stopping && !lease.signal.aborted) {
      await this.#change(lease.signal);
    }
  }

  /** Resolves at the end of an attempt, at stop, or when signal is aborted. */
  async #change(signal) {
    if (signal.aborted) return;
    let woken;
    const change = new Promise((resolve) => { woken = resolve; });
    this.#wake = woken;
    signal.addEventListener('abort', woken, { once: true });
    await change;
    signal.removeEventListener('abort', woken);
  }

  /** Waits that long, or until the worker stops. */
  #pause(milliseconds) { return new Alarm().sleep(milliseconds, this.#stop.signal); }

  // Adds to the message of a refusal what to do about it.
  #refusal(error) {
    if (error.misplaced || error.unresolved) return error;
    const { origin } = this.#link.base;
    const hints = {
      not_found: `; it ${tooOld}`,
      unauthenticated: '; pass a token with the scope work: mailroom token create NAME --scope work',
      forbidden: '; the token needs the scope work: mailroom token create NAME --scope work',
    };
    error.message = `the server at ${origin} refused the worker: ${error.detail}${hints[error.code] ?? ''}`;
    return error;
  }
}

const mostLost = 20; // lost claims after which the server gives a run up

/**
 * Whether the run fails for good if this claim is lost too. Such a run may be what crashes its workers, so a worker has
 * only one at a time: a crash then ends no other run for good.
 */
function onLastAttempt({ run, lost = 0 }) {
  const { crashes, max_crashes: most = 3 } = run;
  return (crashes > 0 && crashes >= most - 1) || lost >= mostLost - 1;
}
