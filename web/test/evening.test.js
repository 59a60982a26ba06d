// An evening on the phone: questions come by ntfy, as a notification of a browser and by mail, and each is decided
// where it came. The server is killed between each two steps.

import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';

import { Mailroom } from '../../clients/js/mailroom.js';
import { open } from '../../clients/js/test/server.js';
import { launch, openPage } from './browser.js';
import { account, startMailServer } from './mailbox.js';
import { ntfy } from './ntfy.js';
import { AlertedBrowser, randomKey, Service } from './push.js';

const rule = (name, target) => `
[rules.${name}]
when = ["ticket"]
to = ["${target}"]
threads = ["${name}"]
text = "full"
`;

// The next server takes over what a killed one had claimed when its lease has ended. The lease is not shorter: a busy
// machine may keep a worker from renewing it for seconds, and three lost claims in a row end a run.
const config = (url, phone, mail) => `
renew = "500ms"
lease = "5s"
[server]
url = "${url}"
[agents.tour]
pace = "10ms"
[targets.phone]
kind = "ntfy"
url = "${phone.url}"
topic = "alerts"
allow = ["127.0.0.1"]
[targets.browsers]
kind = "push"
contact = "mailto:ops@example.org"
key_env = "PUSH_KEY"
allow = ["127.0.0.1"]
[targets.mailbox]
kind = "email"
server = "${mail.address}"
tls = "none"
user = "${account.user}"
password_env = "MAIL_PASSWORD"
from = "alerts@test.example"
to = ["${account.address}"]
allow = ["127.0.0.1"]
${rule('ntfy', 'phone')}${rule('push', 'browsers')}${rule('mail', 'mailbox')}`;

/** A server that sends alerts about questions in the threads ntfy, push and mail by ntfy, Web Push and mail. */
class Evening {
  static async begin(t, context) {
    const [phone, mail, service] = await Promise.all([ntfy(t), startMailServer(t), Service.start(t)]);
    process.env.PUSH_KEY = randomKey();
    process.env.MAIL_PASSWORD = account.password;
    const server = await open(t);
    await server.kill();
    await writeFile(join(server.folder, 'mailroom.toml'), config(server.url, phone, mail));
    await server.start();
    return Object.assign(new Evening(), { phone, mail, service, server, context, client: new Mailroom(server) });
  }

  async crash() {
    await this.server.kill();
    await this.server.start();
  }

  /** Asks a question. The server is killed before the agent asks, or as it does. */
  async ask(thread) {
    const { run } = await this.client.send({ thread, text: 'show me', agent: 'tour' });
    await this.crash();
    return run;
  }

  /** Kills the server after a question has arrived, before or after it has the receipt, and waits for the end of the alert. */
  async crashAfterArrival(sender) {
    await this.crash();
    for await (const _ of this.client.follow({ thread: sender, until: 'settled' }));
  }

  /** Kills the server while the run goes on after a decision, and waits for the end of the run. */
  async crashAfterDecision(run) {
    for await (const { kind, entry } of this.client.follow({ run })) {
      if (kind === 'entry' && entry.kind === 'tool.finished' && entry.body.call === 'send-1') break;
    }
    await this.crash();
    for await (const _ of this.client.follow({ run }));
  }

  /** Checks that the question was decided once, by a target, and that the run went on once. */
  async check(thread, run, target) {
    const { items } = await this.client.entries(thread, { limit: 500 });
    const of = (kind) => items.filter((entry) => entry.kind === kind);
    assert.deepEqual(of('ticket.decided').map(({ body }) => body.decided_by).filter((by) => by?.startsWith('alert:')), [`alert:${target}`]);
    assert.deepEqual([of('run.resumed').length, of('run.completed').length], [1, 1]);
    assert.equal((await this.client.run(run)).status, 'completed');
    assert.match((await this.client.messages(thread)).items.at(-1).text, new RegExp(`alert:${target} allowed it, and it was sent once`));
  }

  async press({ url, method = 'POST', headers = { 'Content-Type': 'application/json' }, body }) {
    const response = await fetch(url, { method, headers, body });
    return [response.status, (await response.json()).ticket?.decision];
  }
}

const title = 'tour asks for an approval';

/**
 * Checks that each message but one says that an earlier one may have arrived. None is without the mark if the kill came
 * between the intention to send and the send. The one need not be the first: the mail server delivers messages that it
 * accepted shortly after each other in either order.
 */
function checkMarks(titles) {
  const marked = titles.filter((each) => each !== title);
  assert.ok(titles.length - marked.length <= 1, `${titles}: more than one without a mark`);
  assert.deepEqual(marked, marked.map(() => `(repeated) ${title}`));
}

async function byNtfy(evening) {
  const { phone } = evening;
  const run = await evening.ask('ntfy');
  await phone.next();
  await evening.crashAfterArrival('alert:phone');
  const [told] = phone.all;
  checkMarks(phone.all.map((message) => message.title));
  const button = (message, label) => message.actions.find((action) => action.label === label);
  assert.deepEqual(await evening.press(button(told, 'Approve')), [200, 'approve']);
  await evening.crashAfterDecision(run);
  for (const message of phone.all) {
    assert.deepEqual(await evening.press(button(message, 'Approve')), [200, 'approve']);
    assert.deepEqual(await evening.press(button(message, 'Deny')), [409, undefined]);
  }
  await evening.check('ntfy', run, 'phone');
}

async function byPush(evening, browser) {
  const { client, server, service } = evening;
  const [{ id }] = (await client.push()).subscriptions;
  const run = await evening.ask('push');
  const { payload } = await service.take();
  await evening.crashAfterArrival(`alert:browsers:push:${id}`);
  await browser.deliver(JSON.stringify(payload));
  for (const { payload: again } of service.rest()) {
    assert.deepEqual([again.tag, again.repeated], [payload.tag, true]);
    await browser.deliver(JSON.stringify(again));
  }
  const [notification] = await browser.shown((all) => all.length === 1);
  assert.deepEqual([notification.title, notification.actions], [title, ['Approve', 'Deny']]);
  await server.kill();
  await browser.tap('0');
  await browser.shown((all) => all.length === 1 && all[0].body === `The server cannot be reached. Try again.\n${payload.body}` && all[0].actions.length === 2);
  await server.start();
  await browser.tap('0');
  await browser.shown((all) => all.length === 1 && all[0].body === 'Approved.');
  await evening.crashAfterDecision(run);
  await browser.deliver(JSON.stringify({ ...payload, repeated: true }));
  await browser.tap('0');
  await browser.shown((all) => all.length === 1 && all[0].body === 'Approved.');
  await evening.check('push', run, 'browsers');
}

async function byMail(t, evening) {
  const { mail } = evening;
  const run = await evening.ask('mail');
  await mail.wait(1);
  await evening.crashAfterArrival('alert:mailbox');
  const all = await mail.wait(1);
  const [told] = all;
  checkMarks(all.map(({ headers }) => headers.subject));
  assert.deepEqual([...new Set(all.map(({ headers }) => headers['message-id']))], [told.headers['message-id']]);
  const page = await openPage(t, evening.context);
  const [link] = /http:\S+\/decide#\S+/.exec(told.parts['text/plain']);
  await page.goto(link);
  const approve = page.getByRole('button', { name: 'Approve' });
  await approve.waitFor();
  await evening.crash();
  await approve.click();
  await page.getByText('Approved').waitFor();
  await evening.crashAfterDecision(run);
  await page.reload();
  await page.getByText('Approved by alert:mailbox').waitFor();
  assert.equal(await page.getByRole('button').count(), 0);
  await evening.check('mail', run, 'mailbox');
}

describe('an evening on the phone', () => {
  let context;
  let close;

  before(async () => { [context, close] = await launch({ reducedMotion: 'reduce', notifications: true, viewport: { width: 390, height: 844 }, hasTouch: true }); });
  after(() => close());

  test('with a server that is killed between each two steps', async (t) => {
    const evening = await Evening.begin(t, context);
    const browser = await AlertedBrowser.visit(t, context, evening.server, evening.service);
    await browser.turnOn();
    await byNtfy(evening);
    await byPush(evening, browser);
    await byMail(t, evening);
  });
});
