// A server with a worker in this process, or in another one, for tests.

import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

import { Mailroom } from '../mailroom.js';
import { work } from '../worker/index.js';
import { open } from './server.js';

/** A server whose agent "js" (or the agents of a map) this process serves. */
export async function serve(t, handlers, { config, ...options } = {}) {
  let worker;
  t.after(() => worker?.stop({ within: 0 }).catch(() => {})); // before the server is closed
  const server = await open(t, config);
  const bench = new Bench(server);
  bench.start = (agents = handlers, more = {}) => {
    const given = { url: server.url, token: server.token, grace: 500, log: bench.log, ...options, ...more };
    return typeof agents === 'function' ? work('js', agents, given) : work(agents, given);
  };
  if (handlers) {
    bench.worker = worker = bench.start();
    await worker.ready;
  }
  return bench;
}

class Bench {
  lines = [];
  #wanted = [];
  log = Object.fromEntries(['debug', 'info', 'warn', 'error'].map((level) => [level, (message, attributes) => {
    this.lines.push({ level, message, ...attributes });
    for (const look of [...this.#wanted]) look();
  }]));

  constructor(server) {
    this.server = server;
    this.client = new Mailroom({ url: server.url, token: server.token });
  }

  async send(text, more = {}) { return (await this.client.send(text, { agent: 'js', ...more })).run; }

  /** The run once it has ended, or waits for a ticket with until "waiting". */
  async end(run, until = 'settled') {
    for await (const _ of this.client.follow({ run, until }));
    return this.client.run(run);
  }

  /** The entries of the run's thread of these kinds. */
  async entries(run, ...kind) {
    const { thread } = await this.client.run(run);
    return (await this.client.entries(thread, { limit: 500, kind })).items;
  }

  /** The open ticket of the run. */
  async question(run) { return (await this.client.tickets({ q: `run:${run} state:open` })).items[0]; }

  async decide(run, decision = 'approve', more = {}) {
    const ticket = await this.question(run);
    await this.client.decide(ticket.id, { decision, digest: ticket.digest, ...more });
    return ticket;
  }

  /** Resolves with the first line of the log that has the message. */
  logged(message) {
    return new Promise((resolve) => {
      const look = () => {
        const line = this.lines.find((one) => one.message.includes(message));
        if (line) resolve(line);
      };
      this.#wanted.push(look);
      look();
    });
  }
}

/** A worker of the agent "js" in a process of its own, see worker.child.js. */
export async function elsewhere(t, server, mode) {
  const file = fileURLToPath(new URL('worker.child.js', import.meta.url));
  const child = spawn(process.execPath, [file, mode], {
    env: { ...process.env, MAILROOM_URL: server.url, MAILROOM_TOKEN: server.token },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  t.after(() => child.kill('SIGKILL'));
  const lines = [];
  let look = () => {};
  createInterface({ input: child.stdout }).on('line', (line) => { lines.push(line); look(); });
  const said = (text) => new Promise((resolve) => {
    look = () => { if (lines.includes(text)) resolve(); };
    look();
  });
  await said('ready');
  return { child, lines, said };
}

/** A promise and its resolve. */
export function gate() {
  let open;
  const opened = new Promise((resolve) => { open = resolve; });
  return { open, opened };
}
