// Effects: calls whose value is recorded, so that a later attempt does not make them again.

import { MailroomError } from '../errors.js';
import { checkName } from './attempt.js';
import { waitFor } from './asks.js';
import { isWithin, within } from './context.js';
import { conflict, Failure, invalid, LeaseLost, messageOf, Unknown } from './errors.js';
import { bytesOf, digest, KiB, MiB, plain } from './json.js';

const limit = MiB; // of a recorded value
const limitAsked = 64 * KiB; // of an input that a ticket shows
const limitError = 16 * KiB; // characters of a recorded error

export class Effects {
  #attempt;
  #states = null; // a promise of a Map by name, read once per attempt
  #tails = new Map(); // by name: one call at a time

  constructor(attempt) { this.#attempt = attempt; }

  effect(name, fn, { input, idempotent = false, reconcile } = {}) {
    return this.#enter(name, fn, input, async (state, given) => {
      for (;;) {
        if (settled(state)) return valueOf(state);
        if (state.last === 'effect.intended' || state.last === 'effect.unknown') {
          if (!await this.#resolve(state, given, { idempotent, reconcile })) continue;
        }
        try {
          return await this.#call(state, fn);
        } catch (error) {
          if (!(error instanceof Unknown) || idempotent || reconcile || this.#attempt.signal.aborted) throw error;
        }
      }
    });
  }

  memo(name, fn, { input } = {}) {
    return this.#enter(name, fn, input, async (state) => {
      if (settled(state)) return valueOf(state);
      if (state.tries > 0) throw conflict(`"${name}" is an effect without a value yet; give the memo another name`);
      this.#attempt.check();
      const made = await within(this, name, fn);
      let value;
      try {
        value = plain(made, `the value of memo "${name}"`, limit);
      } catch (error) {
        throw withoutValue(state, error); // it is not recorded: the call may be repeated
      }
      await this.#record(state, 'effect.settled', { result: value });
      return value;
    });
  }

  // Calls of one name wait for each other.
  async #enter(name, fn, input, work) {
    checkName(name, 'an effect');
    if (typeof fn !== 'function') throw invalid(`effect "${name}" needs a function`);
    this.#attempt.check();
    if (isWithin(this, name)) {
      throw conflict(`"${name}" is called within its own function, and would wait for itself; give it another name`);
    }
    const given = plain(input, `the input of effect "${name}"`, limit);
    return this.#after(name, async () => {
      const state = await this.#state(name);
      const print = await digest(given);
      if (state.last && state.input !== print) {
        throw conflict(`effect "${name}" was started with different input; give it another name`);
      }
      state.input = print;
      return work(state, given);
    });
  }

  #after(name, job) {
    const done = (this.#tails.get(name) ?? Promise.resolve()).then(job);
    this.#tails.set(name, done.catch(() => {}));
    return done;
  }

  async #state(name) {
    this.#states ??= this.#read();
    let states;
    try {
      states = await this.#states;
    } catch (error) {
      this.#states = null; // the next call reads again
      throw error;
    }
    this.#attempt.check();
    if (!states.has(name)) states.set(name, { name, key: `${this.#attempt.run.id}/${name}`, last: '', tries: 0 });
    return states.get(name);
  }

  async #read() {
    const { run } = this.#attempt;
    const items = run.steps > 0 ? await this.#attempt.get('effects') : []; // a run without steps has no effects
    return new Map(items.map((item) => [item.name, item]));
  }

  /** Resolves an effect whose outcome is unknown. Returns whether to call it again; if not, its value is recorded. */
  async #resolve(state, input, { idempotent, reconcile }) {
    if (state.last === 'effect.intended') await this.#record(state, 'effect.unknown');
    if (idempotent) return true;
    if (reconcile) {
      const found = await within(this, state.name, () => reconcile(state.key));
      if (!found) return true;
      await this.#settle(state, found.value);
      return false;
    }
    const bytes = bytesOf(JSON.stringify(input));
    const shown = bytes > limitAsked ? { digest: state.input, bytes } : input;
    const ticket = await waitFor(this.#attempt, {
      name: `effect:${state.name}#${state.tries}`, kind: 'approval', answers: true, action: state.name,
      prompt: `The outcome of "${state.name}" is unknown. Approve to run it again, answer with its result, or deny.`,
      arguments: shown ?? undefined,
    });
    if (ticket.decision === 'approve') return true;
    if (ticket.decision !== 'answer') {
      const reason = `the outcome of effect "${state.name}" is unknown, and repeating it was denied`;
      throw new Failure(reason, { class: 'permanent' });
    }
    await this.#record(state, 'effect.settled', { result: ticket.answer });
    return false;
  }

  async #call(state, fn) {
    this.#attempt.check();
    await this.#record(state, 'effect.intended');
    let value;
    try {
      this.#attempt.check(); // the attempt may have ended in between
    } catch (error) {
      await this.#record(state, 'effect.settled', { error: `not called: ${messageOf(error)}` });
      throw error;
    }
    try {
      value = await within(this, state.name, () => fn(state.key));
    } catch (error) {
      await this.#failed(state, error);
      throw error;
    }
    return this.#settle(state, value);
  }

  // A call that was stopped may have had its effect, whatever it throws.
  async #failed(state, error) {
    try {
      if (error instanceof Unknown || this.#attempt.signal.aborted) {
        await this.#record(state, 'effect.unknown');
      } else {
        const text = messageOf(error).replaceAll('\0', '').slice(0, limitError);
        await this.#record(state, 'effect.settled', { error: text || 'failed' });
      }
    } catch (lost) {
      if (lost instanceof LeaseLost) throw lost;
      throw new AggregateError([error, lost], messageOf(error));
    }
  }

  /** Records the value of a call. If it cannot be kept, records only the call, so that no attempt repeats it. */
  async #settle(state, value) {
    try {
      const result = plain(value, `the value of effect "${state.name}"`, limit);
      await this.#record(state, 'effect.settled', { result });
      return result;
    } catch (error) {
      if (!(error instanceof MailroomError)) throw error;
      await this.#record(state, 'effect.settled', { cut: true });
      throw withoutValue(state, error);
    }
  }

  // Records also after a stop and while the run parks, because the outcome of a call that began must be known.
  async #record(state, kind, outcome = {}) {
    const good = kind === 'effect.settled' && outcome.error === undefined;
    const effects = [{ kind, body: { name: state.name, input: state.input, ...outcome } }];
    const record = good ? undefined : true; // a failed call is no progress
    await this.#attempt.commit({ effects, step: { record } }, { text: good });
    Object.assign(state, { last: kind, result: undefined, error: undefined, cut: undefined }, outcome);
    if (kind === 'effect.intended') state.tries++;
  }
}

function settled(state) { return state.last === 'effect.settled' && !state.error; }

function valueOf(state) {
  if (state.cut) throw withoutValue(state);
  return state.result ?? null;
}

function withoutValue({ name }, cause) {
  const why = cause ? `: ${cause.detail}` : '; return a reference';
  const message = `effect "${name}" was called, but its value could not be kept${why}`;
  return new Failure(message, { class: 'permanent', cause });
}
