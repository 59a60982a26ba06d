// A user of the console, and stores for it, for tests.

import { mkdir } from 'node:fs/promises';
import { after, before } from 'node:test';

import { open } from '../../clients/js/test/server.js';
import { launch, openPage, signIn } from './browser.js';
import { shoot, shots } from './person.js';
import { senderOf } from './sender.js';

/** The configuration of a server with agents that reply, ask and fail, and a channel that is down. */
export const config = `
[agents.echo]
kind = "echo"
pace = "0s"
[agents.tour]
kind = "tour"
pace = "0s"
[agents.broken]
kind = "exec"
command = ["sh", "-c", "echo no route to the host >&2; exit 1"]
[channels.desk]
kind = "poll"
url = "http://127.0.0.1:9"
workspace = "w"
token_env = "HOME"
agent = "echo"
`;

/** A text that must stay text. */
export const HOSTILE = '<img src=x onerror="document.title=1"> \u202egnp.exe';

/** A user of the console. */
export class Operator {
  constructor(page, server) { [this.page, this.server] = [page, server]; }

  /** Signs in with a link, as mailroom open prints it. */
  async enter(route = '') {
    await signIn(this.page, (await this.server.command('open')).trim());
    await this.page.getByRole('navigation', { name: 'Pages' }).waitFor({ state: 'attached' });
    if (route) await this.go(route);
    return this;
  }

  /** Opens a page of the console, and waits until it is drawn in place of the one before. */
  async go(route) {
    await this.page.evaluate((hash) => new Promise((drawn) => {
      if (location.hash === hash) return drawn();
      addEventListener('hashchange', () => drawn(), { once: true }); // after the console, which draws as it hears of it
      location.hash = hash;
    }), `#/${route}`);
    await this.page.locator('main h1').waitFor({ state: 'attached' });
  }

  button(name) { return this.page.getByRole('button', { name, exact: true }); }

  /** Waits until the stream is connected. */
  live() { return this.page.locator('nav .connection[data-tone="good"]').waitFor({ state: 'attached' }); }

  shot(name) { return shoot(this.page, name); }
}

/** Opens a browser for the tests of a suite. The functions that it returns open a page, and a server with a page. */
export function operators() {
  let context;
  let close;

  before(async () => {
    await mkdir(shots, { recursive: true });
    [context, close] = await launch({ reducedMotion: 'reduce' });
  });
  after(() => close());

  async function visit(t, server) {
    return new Operator(await openPage(t, context), server);
  }

  async function arrive(t) {
    const server = await open(t, config);
    return { server, operator: await visit(t, server), client: senderOf(server) };
  }

  return { visit, arrive };
}

/**
 * Lets a page that is opened after this send no decision until the returned function was called: what a test does in the
 * five seconds in which a decision can be undone takes longer on a busy machine.
 */
export async function holdDecisions(page) {
  await page.addInitScript(() => {
    const [start, stop] = [globalThis.setTimeout, globalThis.clearTimeout];
    const held = new Map();
    let holds = true;
    let last = 0;
    globalThis.setTimeout = (f, ms, ...rest) => {
      if (!holds || ms !== 5_000) return start(f, ms, ...rest);
      held.set(`held ${++last}`, () => f(...rest));
      return `held ${last}`;
    };
    globalThis.clearTimeout = (id) => (held.delete(id) ? undefined : stop(id));
    window.sendDecisions = () => {
      holds = false;
      for (const f of held.values()) start(f, 0);
    };
  });
  return () => page.evaluate(() => window.sendDecisions());
}

/** Runs that completed, failed and wait. */
export async function populate(client) {
  const asked = await client.send({ thread: 'asks', text: 'show me', agent: 'tour' });
  const failed = await client.send({ thread: 'fails', text: 'x', agent: 'broken', max_attempts: 1 });
  const hostile = await client.send({ thread: 'hostile', text: HOSTILE, metadata: { label: HOSTILE } });
  const others = [];
  for (let i = 0; i < 30; i++) others.push(await client.send({ thread: `thread-${i}`, text: `message **${i}**` }));
  for (const { run } of [failed, hostile, ...others]) for await (const _ of client.follow({ run }));
  for await (const _ of client.follow({ run: asked.run, until: 'waiting' }));
  return { asked, failed, hostile };
}
