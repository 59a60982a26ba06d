// What a handler sees of its attempt. The types and what each call promises are in index.d.ts.

import { noteSends, question, send, waitFor } from './asks.js';
import { checkName } from './attempt.js';
import { Blobs } from './blobs.js';
import { Effects } from './effects.js';
import { invalid } from './errors.js';
import { duration, encode, KiB, plain, wellFormed } from './json.js';
import { checkLabel, checkText } from './text.js';

const limitEntry = 256 * KiB;
const limitState = 16 * KiB;
const longestWait = 200; // characters of what a handler waits for
const noUsage = { input_tokens: 0, output_tokens: 0, cost_usd: 0 };

export class Session {
  #attempt;
  #effects;

  constructor(attempt) {
    this.#attempt = attempt;
    this.#effects = new Effects(attempt);
    this.blobs = new Blobs(attempt);
    this.input = attempt.claim.messages ?? [];
    this.text = this.input.map((message) => message.text).join('\n');
    this.run = attempt.run;
    this.signal = attempt.signal;
    this.tool = {
      started: (call, name, args) => this.#tool('tool.started', { call, name, arguments: args }),
      finished: (call, { ok = true, ...more } = {}) => this.#tool('tool.finished', { call, ok, ...more }),
    };
  }

  get state() { return this.#attempt.state; }

  get checkpoint() { return this.#attempt.checkpoint; }

  get budgetLeft() { return this.#attempt.budgetLeft; }

  write(text) {
    return this.#show(text, 'the text', () => this.#attempt.text.write(text));
  }

  reasoning(text) {
    return this.#show(text, 'the reasoning', () => this.#attempt.text.show(text, 'thinking'));
  }

  toolArguments(call, name, text) {
    return this.#show(text, 'the arguments', () => {
      checkLabel(call, 'the id of the call');
      if (name !== '') checkLabel(name, 'the name of the tool');
      return this.#attempt.text.show(text, 'tool', call, name);
    });
  }

  waitsOn(text) {
    checkText(text, 'what the handler waits for');
    this.#attempt.check();
    this.#attempt.waitsOn = wellFormed(text).slice(0, longestWait);
  }

  step(step = {}, options = {}) { return this.#attempt.track(this.#step(step, options)); }

  effect(name, fn, options) { return this.#attempt.track(this.#effects.effect(name, fn, options)); }

  memo(name, fn, options) { return this.#attempt.track(this.#effects.memo(name, fn, options)); }

  approval(name, asked) {
    return this.#wait(() => question(name, 'approval', asked), (ticket) => ticket.decision === 'approve');
  }

  ask(name, asked) {
    return this.#wait(() => question(name, 'input', asked), answerOf);
  }

  sleep(name, until) {
    return this.#wait(() => question(name, 'timer', { expires: until }), () => undefined);
  }

  event(name, asked) {
    return this.#wait(() => question(name, 'event', asked), answerOf);
  }

  send(name, message) {
    return this.#attempt.track((async () => {
      this.#attempt.check();
      await send(this.#attempt, [{ ...message, name }]);
    })());
  }

  call(name, message) {
    return this.#attempt.track((async () => {
      const attempt = this.#attempt;
      attempt.check({ parked: true });
      if (!attempt.tickets.has(name)) await send(attempt, [{ ...message, name, answer: 'wait' }]);
      return (await waitFor(attempt, { name })).answer;
    })());
  }

  ticket(name) { return this.#attempt.tickets.get(name); }

  steered() {
    return this.#attempt.track((async () => {
      const attempt = this.#attempt;
      attempt.check();
      if (!attempt.steered) return [];
      return attempt.inTurn(async () => {
        attempt.steered = false;
        try {
          const { messages, last } = await attempt.post('steered', { after: attempt.handed });
          attempt.handed = last;
          return messages ?? [];
        } catch (error) {
          attempt.steered = true; // the next call returns them
          throw error;
        }
      });
    })());
  }

  transcript(limit = 100) {
    return this.#attempt.track((async () => {
      this.#attempt.check();
      return limit > 0 ? this.#attempt.get('transcript', { limit: Math.min(limit, 10_000) }) : [];
    })());
  }

  log({ kinds, after, before, limit = 100 } = {}) {
    return this.#attempt.track((async () => {
      this.#attempt.check();
      let entries = [];
      for (let older = before; entries.length < limit;) {
        const query = { kind: kinds, after, before: older, limit: Math.min(limit - entries.length, 1000) };
        const page = await this.#attempt.page('log', query);
        entries = [...(page.items ?? []), ...entries];
        if (!page.next) break;
        older = page.next;
      }
      return entries;
    })());
  }

  #show(text, what, show) {
    return this.#attempt.track((async () => {
      checkText(text, what);
      this.#attempt.check();
      await show();
    })());
  }

  #wait(ask, read) {
    return this.#attempt.track((async () => read(await waitFor(this.#attempt, ask())))());
  }

  async #step(step, { afterStop = false }) {
    const { name, state, checkpoint, usage, entries, sends, parts, progress, aside, extend, blobs } = step;
    const attempt = this.#attempt;
    attempt.check({ stopped: afterStop });
    for (const one of sends ?? []) checkName(one?.name, 'a send');
    const body = {
      name, progress, aside, sends, extend: extend === undefined ? undefined : duration(extend),
      state: state === undefined ? undefined : plain(state, 'the state', limitState),
      checkpoint: checkpoint === undefined ? undefined : plain(checkpoint, 'the checkpoint', limitEntry),
      usage: usage && { ...noUsage, ...usage },
      entries: entries?.map((one) => ({ kind: one.kind, body: plain(one.body, `the entry ${one.kind}`, limitEntry) })),
    };
    encode(body, 'the step');
    if (blobs) body.blobs = await this.blobs.upload(blobs);
    await attempt.commit({ step: body }, { text: true, parts });
    if (state !== undefined) attempt.state = body.state;
    if (checkpoint !== undefined) attempt.checkpoint = body.checkpoint;
    noteSends(attempt, sends);
  }

  #tool(kind, body) { return this.#attempt.track(this.#noteTool(kind, body)); }

  async #noteTool(kind, body) {
    this.#attempt.check();
    if (typeof body.call !== 'string') throw invalid(`${kind} needs the id of its call, a text`);
    const entries = [{ kind, body: plain(body, kind, limitEntry) }];
    await this.#attempt.commit({ step: { entries, aside: true } }, { text: true });
  }
}

function answerOf(ticket) { return ticket.state === 'expired' ? null : ticket.answer; }
