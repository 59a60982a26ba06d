// A morning: schedules start an agent that asks, a person is away and is reminded, the answers come by hand, and the
// budget of the agent ends. A digest each minute says what happened and which question still waits. The server is killed
// between each two steps, and the person comes back to the console.

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

// The next server takes over what a killed one had claimed when its lease has ended. The lease is not shorter: a busy
// machine may keep a worker from renewing it for seconds, and three lost claims in a row end a run.
const config = (url, phone) => `
renew = "500ms"
lease = "5s"
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
[targets.desk]
kind = "ntfy"
url = "${phone.url}"
topic = "digests"
allow = ["127.0.0.1"]
[rules.overview]
when = ["digest"]
to = ["desk"]
digest = "1m"
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
      const known = this.told.find((message) => message.topic === 'alerts' && words.test(`${message.title}\n${message.message}`));
      if (known) return known;
      this.told.push(await this.phone.next());
    }
  }

  /** The digests that were published, in order. One that a kill in the middle of its send repeats is marked, and counts once. */
  digests() {
    const all = new Map();
    for (const { topic, title, message } of this.phone.all) {
      if (topic !== 'digests') continue;
      const [done, failed, waiting] = title.match(/\d+/g).map(Number);
      const [, from, until] = message.match(/^From (.*) to (.*):/);
      assert.ok(!all.has(until) || title.startsWith('(repeated)'), `the digest until ${until} was sent twice`);
      all.set(until, { done, failed, waiting, from, until, message });
    }
    return [...all.values()];
  }

  /** Waits for a digest that matches, and keeps the alerts that come before it. */
  async digest(matches) {
    for (;;) {
      const found = this.digests().find(matches);
      if (found) return found;
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
      if (name === 'first') {
        const digest = await morning.digest(({ waiting, message }) => waiting === 1 && message.includes('Send the summary'));
        assert.match(digest.message, /questions that wait for a decision now: 1\nthe oldest since .*\nclerk asks in inbox: Send the summary to the team\?/);
        await morning.crash();
      }
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
    const done = await morning.until(runs.at(-1));
    assert.equal(done.reply, 'The answer was no.', JSON.stringify(done));
    const { items } = await client.entries('inbox', { limit: 500 });
    assert.deepEqual(items.filter(({ kind }) => kind === 'run.queued').map(({ run }) => run), [night, ...runs], 'each time was sent once');
    assert.equal(items.filter(({ kind }) => kind === 'run.completed').length, 4);
    const [, ended] = items.at(-1).at.match(/T(\d\d:\d\d)/);
    await morning.digest(({ until }) => until.split(' ')[2] > ended || ended === '23:59');
    const digests = morning.digests();
    for (let i = 1; i < digests.length; i++) assert.equal(digests[i].from, digests[i - 1].until, 'a digest begins where the one before ended');
  });
});
