// The registration of a worker with the server, which lasts while it is renewed.

import { LeaseLost, Stopped } from './errors.js';

const contractWaits = 3; // of servers that show what attempts wait for
const contractEntered = 4; // of servers that release the claims which a worker that leaves has not entered

/** Codes of a worker that the server no longer knows. */
const ended = new Set(['lease_lost', 'not_found', 'gone', 'conflict']);

/** Whether an error says that the worker has to register again. */
export function leaseEnded(error) { return ended.has(error.code); }

/** Whether an error may pass by itself. One of another program in the place of a known server may, too. */
export function mayPass({ passing, misplaced, code }) { return passing || misplaced || code === 'internal'; }

export class Lease {
  /** Attempts under this lease, by claim. */
  attempts = new Map();
  /** The last round of claims that was answered, and whose attempts have started. */
  round = 0;
  /** The number of the worker contract of the server, with its last answer to a claim. */
  contract;
  #unsettled = new Set(); // claims whose attempts have ended here; no request could tell the server
  #link;
  #log;
  #renewed;
  #timer;
  #end = new AbortController();

  /** asked is when the registration was sent: counted from then, the lease ends here no later than at the server. */
  constructor(link, log, { worker, contract, lease_ms: length }, asked) {
    this.#link = link;
    this.#log = log;
    this.id = worker;
    this.length = length;
    this.contract = contract;
    this.#renewed = asked;
    this.#schedule(length / 3);
  }

  /** Aborts when the lease has ended, with the reason. */
  get signal() { return this.#end.signal; }

  /** Ends the lease and its attempts: their claims are lost. error is set if the server refuses the worker for good. */
  end(reason, error) {
    clearTimeout(this.#timer);
    if (this.signal.aborted) return;
    this.error = error;
    this.#end.abort(new LeaseLost(reason));
    for (const attempt of this.attempts.values()) attempt.end(this.signal.reason);
  }

  /** Whether leave gives back claims whose answer was lost. */
  get releases() { return this.contract >= contractEntered; }

  /** Tells the server that the worker has gone, and which claims it has begun to work on. The others are released. */
  async leave() {
    if (this.signal.aborted) return;
    const entered = [...this.attempts.keys(), ...this.#unsettled];
    this.end('the worker has stopped');
    await this.#tell('leave', this.releases ? { entered } : {}); // else the lease runs out
  }

  /** Gives a claim back that could not be settled. Naming the last round keeps a claim whose answer is under way. */
  async giveBack(claim) {
    const held = [...this.attempts.keys()].filter((id) => id !== claim);
    if (!this.signal.aborted && !await this.#tell('renew', { round: this.round, held })) this.#unsettled.add(claim);
  }

  // Returns whether the server has answered.
  #tell(what, body) {
    const options = { once: true, timeout: this.length / 3 };
    return this.#link.post(`v1/workers/${this.id}/${what}`, body, options).then(() => true, () => false);
  }

  /** Decides what a failed claim or renewal means. Returns whether the call may be made again. */
  judge(error) {
    if (this.signal.aborted) return false;
    if (mayPass(error)) {
      if (this.#left >= 1) return true;
      this.#runOut();
    } else {
      this.end(`the server refused the worker: ${error.detail}`, leaseEnded(error) ? undefined : error);
    }
    return false;
  }

  /** Milliseconds until another worker may have the claims, unless a renewal is answered. Timers wait no less than 1. */
  get #left() { return this.#renewed + this.length - performance.now(); }

  #runOut() {
    const silent = performance.now() - this.#renewed;
    this.end(`no answer from the server for ${Math.round(silent)} ms; the lease lasts ${this.length} ms`);
  }

  #schedule(delay) {
    this.#timer = setTimeout(() => this.#renew(), delay);
  }

  // A renewal without held releases no claim. A claim that the worker had before the request was revoked if the answer
  // does not contain it.
  async #renew() {
    const asked = performance.now();
    const gap = asked - this.#renewed;
    if (gap > this.length) {
      const reason = 'a handler blocked the event loop, or the process was stopped';
      const attributes = { gap_ms: Math.round(gap), lease_ms: this.length, reason };
      this.#log.warn('worker stood still for longer than its lease; its claims may be lost', attributes);
    }
    const left = this.#left;
    if (left < 1) { // an answer would come too late
      this.#runOut();
      return;
    }
    const before = [...this.attempts.values()];
    try {
      const timeout = Math.min(this.length / 3, left);
      const options = { once: true, timeout, signal: this.signal };
      const answer = await this.#send(options);
      this.#renewed = asked;
      this.length = answer.lease_ms;
      this.#apply(before, answer);
      this.#schedule(this.length / 3);
    } catch (error) {
      if (!this.judge(error)) return;
      this.#log.warn('lease not renewed; retrying', { error: error.message });
      this.#schedule(Math.min(this.length / 15, this.#left));
    }
  }

  // Sends what attempts wait for to servers that know the field. Another server of a cluster may be older and refuse
  // it: then the renewal is sent without it, so that the lease is not lost.
  async #send(options) {
    const path = `v1/workers/${this.id}/renew`;
    const silent = [...this.attempts].filter(([, { waitsOn }]) => waitsOn);
    if (silent.length === 0 || !(this.contract >= contractWaits)) return this.#link.post(path, {}, options);
    const waits = Object.fromEntries(silent.map(([claim, { waitsOn }]) => [claim, waitsOn]));
    return this.#link.post(path, { waits_on: waits }, options).catch((error) => {
      if (error.code !== 'invalid') throw error;
      return this.#link.post(path, {}, options);
    });
  }

  #apply(before, { claims, stop, steered }) {
    const held = new Set(claims ?? []);
    for (const attempt of before) {
      if (held.has(attempt.claim.claim) || attempt.settling || attempt.over) continue;
      attempt.end(new LeaseLost('the claim was taken away'));
    }
    for (const { claim, reason } of stop ?? []) this.attempts.get(claim)?.end(new Stopped(reason));
    for (const claim of steered ?? []) this.attempts.get(claim)?.obey({ steered: true });
  }
}
