// The conformance agent in JavaScript: performs the script of a run (docs/workers.md). node conform.js AGENT

import { appendFileSync, closeSync, existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

import { MailroomError } from '../mailroom.js';
import { Failure, Unknown, work } from '../worker/index.js';

const folder = process.env.CONFORMANCE_DIR;
const pause = (ms, signal) => new Promise((resolve, reject) => {
  const end = () => { clearTimeout(timer); reject(signal.reason); };
  const timer = setTimeout(() => { signal?.removeEventListener('abort', end); resolve(); }, ms);
  signal?.addEventListener('abort', end);
});

const content = (text, times = 1) => new TextEncoder().encode(text.repeat(times));
const encoded = (texts) => Object.fromEntries(Object.entries(texts).map(([name, text]) => [name, content(text)]));

class Performer {
  values = [];

  constructor(s) { this.s = s; }

  keep(name, value) { this.values.push(`${name}=${JSON.stringify(value)}`); }

  note(what) { appendFileSync(join(folder, 'notes'), `${this.s.run.id} ${this.s.run.attempt} ${what}\n`); }

  noted(what) {
    return readFileSync(join(folder, 'notes'), 'utf8').split('\n').some((line) => {
      const [run, , ...said] = line.split(' ');
      return run === this.s.run.id && said.join(' ') === what;
    });
  }

  async hold(gate) {
    while (!existsSync(join(folder, `gate.${this.s.run.id}.${gate}`))) await pause(20, this.s.signal);
  }

  crash(name) {
    if (!name || this.noted(`crash ${name}`)) return;
    this.note(`crash ${name}`);
    process.kill(process.pid, 'SIGKILL');
  }

  async happen(name, options) {
    const { hold, crash, unknown, fails } = options;
    if (hold) await this.hold(hold);
    const first = !this.noted(`effect ${name}`);
    this.note(`effect ${name}`);
    this.crash(crash);
    if (first && unknown) throw new Unknown();
    if (first && fails) throw new Error('the effect has failed');
    return this.value(options, `did ${name}`);
  }

  // The value that options ask for: one that cannot be encoded, a large one, or the usual one.
  value({ odd, large }, usual) { return odd ? 1n : large ? 'x'.repeat(large) : usual; }

  async write(text, times = 1) { for (let n = 0; n < times; n++) await this.s.write(text); }

  // Blocks the event loop.
  block(gate) {
    const never = new Int32Array(new SharedArrayBuffer(4));
    while (!existsSync(join(folder, `gate.${this.s.run.id}.${gate}`))) Atomics.wait(never, 0, 0, 20);
  }

  async effect(name, options = {}) {
    const { input, idempotent } = options;
    const reconcile = options.reconcile && (() => (this.noted(`effect ${name}`) ? { value: `did ${name}` } : undefined));
    this.keep(name, await this.s.effect(name, () => this.happen(name, options), { input, idempotent, reconcile }));
  }

  async memo(name, options = {}) { this.keep(name, await this.s.memo(name, () => this.happen(name, options))); }

  step(name, options = {}) {
    const { state, progress, aside, blobs } = options;
    const checkpoint = this.value(options, options.checkpoint);
    const entries = [{ kind: 'x.by', body: { step: name, attempt: this.s.run.attempt } }];
    return this.s.step({ name, state, checkpoint, progress, aside, entries, blobs: blobs && encoded(blobs) });
  }

  // Without a text it deletes the blob.
  put(name, text, times) {
    if (text === undefined) return this.s.blobs.delete(name);
    return this.s.blobs.put(name, content(text.replaceAll('#', this.s.run.attempt), times));
  }

  async blob(name, text, times) {
    const found = await this.s.blobs.get(name);
    this.keep(name, found && Buffer.compare(found, content(text, times)) === 0);
  }

  async try(script) {
    try {
      await this.performAll(script);
    } catch (error) {
      if (!(error instanceof MailroomError)) throw error;
      this.keep('caught', error.code);
    }
  }

  raise(code) {
    if (this.noted(`raise ${code}`)) return;
    this.note(`raise ${code}`);
    throw new MailroomError(code, 'it was refused');
  }

  fail(kind, times = 1) {
    for (let n = 0; n < times; n++) {
      if (this.noted(`fail ${n}`)) continue;
      this.note(`fail ${n}`);
      throw new Failure('it failed', { class: kind });
    }
  }

  async approval(name) { this.keep(name, await this.s.approval(name, { prompt: `May I ${name}?`, action: name })); }

  async ask(name) { this.keep(name, await this.s.ask(name, { prompt: `What of ${name}?` })); }

  async call(name, agent, text) {
    const { status, reply } = await this.s.call(name, { agent, text });
    this.keep(name, `${status}: ${reply}`);
  }

  async steered() {
    let found = [];
    while (found.length === 0) {
      found = await this.s.steered();
      await pause(20, this.s.signal);
    }
    this.keep('steered', found.map(({ text }) => text));
  }

  async transcript() { this.keep('transcript', (await this.s.transcript(10)).map(({ text }) => text)); }

  // Performs operations and commits the number of the part, unless an earlier attempt has.
  async part(n, script) {
    if (this.s.checkpoint >= n) return;
    await this.performAll(script);
    await this.s.step({ checkpoint: n });
  }

  async performAll(script) {
    for (const [verb, ...args] of script) {
      if (!this.verbs[verb]) throw new Failure(`unknown operation ${verb}`, { class: 'permanent' });
      await this.verbs[verb](...args);
    }
  }

  async log(kinds) { this.keep('log', (await this.s.log({ kinds })).map(({ kind }) => kind)); }

  verbs = {
    note: (name) => this.note(`note ${name}`),
    sleep: (name, ms) => this.s.sleep(name, ms),
    send: (name, agent, text) => this.s.send(name, { agent, text }),
    extend: (seconds) => this.s.step({ extend: seconds * 1000 }),
    'waits-on': (text) => this.s.waitsOn(text),
    return: () => {}, // see perform
    'close-stdout': () => closeSync(1),
    state: () => this.keep('state', this.s.state),
    saved: () => this.keep('saved', this.s.checkpoint),
    ...Object.fromEntries(['write', 'hold', 'block', 'crash', 'effect', 'memo', 'step', 'fail', 'approval', 'ask', 'call', 'part',
      'steered', 'transcript', 'log', 'put', 'blob', 'try', 'raise'].map((verb) => [verb, (...args) => this[verb](...args)])),
  };
}

async function perform(s) {
  const p = new Performer(s);
  const script = JSON.parse(s.input[0].text);
  await p.performAll(script);
  const [verb, value] = script.at(-1);
  return verb === 'return' ? value : p.values.join(' ');
}

const worker = work(process.argv[2], perform, { grace: 2000 });
process.once('SIGTERM', () => worker.stop({ within: 2000 }));
await worker.done;
