// A morning: schedules start an agent that asks, a person is away and is reminded, the answers come by hand, and the
// budget of the agent ends. The server is killed between each two steps, and the person comes back to the console.

import assert from 'node:assert/strict';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';

import { Mailroom } from '../../clients/js/mailroom.js';
import { open } from '../../clients/js/test/server.js';
import { work } from '../../clients/js/worker/index.js';
import { launch, openPage } from './browser.js';
import { ntfy } from './ntfy.js';
import { Operator } from './operator.js';
import { shots } from './person.js';

const config = (url, phone) => `
renew = "200ms"
lease = "1s"
[server]
url = "${url}"
[agents.clerk]
kind = "remote"
budget = { day = "1usd" }
[targets.phone]
kind = "ntfy"
url = "${phone.url}"
topic = "alerts"
allow = ["127.0.0.1"]
[rules.person]
when = ["ticket"]
to = ["phone"]
text = "full"
remind_after = "2s"
`;

/** The agent: it asks before it sends a summary, and each of its turns costs 60 cents. */
async function clerk(s) {
  const answer = await s.ask('send', { prompt: 'Send the summary to the team?' });
  await s.step({ name: 'summary', usage: { cost_usd: 0.6 } });
  await s.write(`The answer was ${answer.text ?? answer}.`);
}

class Morning {
  static async begin(t) {
    const phone = await ntfy(t);
    const server = await open(t);
    await server.kill();
    await writeFile(join(server.folder, 'mailroom.toml'), config(server.url, phone));
    await server.start();
    const worker = work('clerk', clerk, { url: server.url, token: server.token, log: { debug() {}, info() {}, warn() {}, error() {} } });
    t.after(() => worker.stop());
    await worker.ready;
    return Object.assign(new Morning(), { phone, server, client: new Mailroom(server), told: [] });
  }

  async crash() {
    await this.server.kill();
    await this.server.start();
  }

  /** Waits for an alert whose title or text matches. */
  async alert(words) {
    for (;;) {
      const known = this.told.find((message) => words.test(`${message.title}\n${message.message}`));
      if (known) return known;
      this.told.push(await this.phone.next());
    }
  }

  /** The open tickets, once there are any: an alert that a kill has repeated says nothing about the next question. */
  async open() {
    for (;;) {
      const open = (await this.client.tickets({})).items.filter(({ state }) => state === 'open');
      if (open.length > 0) return open;
    }
  }

  async until(run) {
    for await (const _ of this.client.follow({ run }));
    return this.client.run(run);
  }
}

const schedule = { at: '1s', agent: 'clerk', thread: 'inbox', text: 'Summarize what is new.' };

/** Sends the message of a schedule and returns its run, after a kill of the server before the time. */
async function fire(morning, name) {
  const { client } = morning;
  await client.putSchedule(name, schedule);
  await morning.crash();
  for await (const { kind, entry } of client.follow({ thread: 'inbox', after: morning.seen })) {
    if (kind === 'entry' && entry.kind === 'run.queued') {
      morning.seen = entry.seq;
      return entry.run;
    }
  }
  throw new Error('the thread ended');
}

/** Answers a question as the person does on the phone, and kills the server as the run goes on. */
async function answer(morning, ticket, decision) {
  await morning.client.decide(ticket.id, { digest: ticket.digest, ...decision });
  await morning.crash();
}

/** Looks at the inbox and at the agent in the console, as the person who comes back, on a desk and on a phone. */
async function look(t, context, morning) {
  const page = await openPage(t, context);
  const operator = await new Operator(page, morning.server).enter();
  for (const width of [1280, 390]) {
    await page.setViewportSize({ width, height: 900 });
    for (const [route, words] of [['inbox', 'The budget of agent clerk'], ['agent/clerk', 'the budget of agent clerk']]) {
      await operator.go(route);
      await page.locator('main', { hasText: words }).waitFor();
      await operator.shot(`morning-${route.replace('/', '-')}-${width}`);
      assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), `${route} is wider than ${width}`);
    }
  }
}

describe('a morning', () => {
  let context;
  let close;

  before(async () => {
    await mkdir(shots, { recursive: true });
    [context, close] = await launch({ reducedMotion: 'reduce' });
  });
  after(() => close());

  test('of schedules, questions and the end of a budget, with a server that is killed between each two steps', async (t) => {
    const morning = await Morning.begin(t);
    const { client } = morning;
    const { run: night } = await client.send({ thread: 'inbox', text: 'Invoice 42 is due on Friday.', agent: 'echo' });
    await morning.until(night);
    morning.seen = (await client.entries('inbox', { limit: 500 })).items.at(-1).seq;
    const runs = [];
    for (const name of ['first', 'second']) { // each costs 60 cents of a dollar
      runs.push(await fire(morning, name));
      await morning.alert(/Send the summary/);
      await morning.crash();
      await morning.alert(/^Reminder: .*\n.*Send the summary/s); // the person is away
      morning.told = [];
      const [ticket] = await morning.open();
      await answer(morning, ticket, { decision: 'answer', answer: { text: 'yes' } });
      assert.equal((await morning.until(runs.at(-1))).status, 'completed');
    }
    runs.push(await fire(morning, 'third'));
    await morning.alert(/budget of agent clerk/i);
    await morning.crash();
    await look(t, context, morning);
    const [raise, ...more] = await morning.open();
    assert.equal(more.length, 0, 'the server asks once whether to raise a budget');
    await answer(morning, raise, { decision: 'approve' });
    await morning.alert(/Send the summary/);
    const [last] = await morning.open();
    await answer(morning, last, { decision: 'answer', answer: { text: 'no' } });
    assert.equal((await morning.until(runs.at(-1))).reply, 'The answer was no.');
    const { items } = await client.entries('inbox', { limit: 500 });
    assert.deepEqual(items.filter(({ kind }) => kind === 'run.queued').map(({ run }) => run), [night, ...runs], 'each time was sent once');
    assert.equal(items.filter(({ kind }) => kind === 'run.completed').length, 4);
  });
});
