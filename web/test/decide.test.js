import assert from 'node:assert/strict';
import { mkdir } from 'node:fs/promises';
import { after, before, describe, test } from 'node:test';

import { Mailroom } from '../../clients/js/mailroom.js';
import { open } from '../../clients/js/test/server.js';
import { colorRules, violations } from './axe.js';
import { launch, openPage } from './browser.js';
import { ntfy } from './ntfy.js';
import { shoot, shots } from './person.js';

const config = (url) => `
[server]
url = "https://mail.example.org"
[agents.tour]
pace = "0s"
[targets.phone]
kind = "ntfy"
url = "${url}"
topic = "alerts"
allow = ["127.0.0.1"]
[rules.questions]
when = ["ticket"]
to = ["phone"]
text = "full"
`;

describe('a link in an alert', () => {
  let context;
  let close;

  before(async () => {
    await mkdir(shots, { recursive: true });
    [context, close] = await launch({ reducedMotion: 'reduce', viewport: { width: 390, height: 844 }, deviceScaleFactor: 2, hasTouch: true });
  });
  after(() => close());

  /** A question about which an alert went to a phone, and the link in the alert. */
  async function asked(t) {
    const phone = await ntfy(t);
    const server = await open(t, config(phone.url));
    const client = new Mailroom(server);
    const sent = await client.send({ thread: 'web', text: 'show me', agent: 'tour' });
    const message = await phone.next();
    const page = await openPage(t, context);
    const link = message.click.replace('https://mail.example.org', server.url);
    return { server, client, sent, message, page, link };
  }

  const ticketOf = async (client) => (await client.tickets({ q: 'thread:web kind:approval' })).items[0];

  for (const [scheme, rules] of [['light'], ['dark', colorRules]]) {
    test(`shows the question, decides by a press, and then who decided (${scheme})`, async (t) => {
      const { client, sent, page, link } = await asked(t);
      await page.emulateMedia({ colorScheme: scheme });
      await page.goto(link);
      await page.getByRole('heading', { name: 'tour asks for an approval' }).waitFor();
      assert.equal((await ticketOf(client)).state, 'open', 'opening a link decides nothing');
      assert.deepEqual(await violations(page, rules), []);
      assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), 'it fits the phone');
      await shoot(page, `decide-${scheme}`, { fullPage: true });
      await page.getByRole('button', { name: 'Approve' }).click();
      await page.getByText('Approved').waitFor();
      assert.deepEqual(await violations(page, rules), []);
      await shoot(page, `decided-${scheme}`, { fullPage: true });
      const ticket = await ticketOf(client);
      assert.equal(ticket.decision, 'approve');
      assert.equal(ticket.decided_by, 'alert:phone');
      for await (const _ of client.follow({ run: sent.run }));
      await page.reload();
      await page.getByText('Approved').waitFor();
      assert.equal(await page.getByRole('button').count(), 0);
    });
  }

  test('that another person decided shows who did', async (t) => {
    const { client, page, link } = await asked(t);
    await page.goto(link);
    await page.getByRole('button', { name: 'Approve' }).waitFor();
    const ticket = await ticketOf(client);
    await client.decide(ticket.id, { decision: 'deny', digest: ticket.digest, reason: 'not today' });
    await page.getByRole('button', { name: 'Approve' }).click();
    await page.getByText('Denied').waitFor();
    await page.getByText('not today').waitFor();
    assert.equal((await ticketOf(client)).decision, 'deny');
  });

  test('that was changed decides nothing, and says why', async (t) => {
    const { client, page, link } = await asked(t);
    await page.goto(`${link}x`);
    await page.getByRole('alert').filter({ hasText: 'The link is not valid: it was changed or cut, or is of another server.' }).waitFor();
    assert.equal(await page.getByRole('button').count(), 0, 'a repeat has the same answer');
    assert.deepEqual(await violations(page), []);
    assert.equal((await ticketOf(client)).state, 'open');
  });

  test('without a server says so, and opens when there is one', async (t) => {
    const { server, page, link } = await asked(t);
    await page.route('**/v1/question', (route) => route.abort(), { times: 1 });
    await page.goto(link);
    await page.getByRole('alert').filter({ hasText: 'The server cannot be reached.' }).waitFor();
    await page.getByRole('button', { name: 'Try again' }).click();
    const approve = page.getByRole('button', { name: 'Approve' });
    await approve.waitFor();
    await server.kill();
    await approve.click();
    await page.getByRole('alert').filter({ hasText: 'The server cannot be reached.' }).waitFor();
    await server.start();
    await approve.click();
    await page.getByText('Approved').waitFor();
    assert.equal(await page.getByRole('alert').count(), 0);
  });

  test('sends nothing but itself, and no cookie', async (t) => {
    const { page, link } = await asked(t);
    const requests = [];
    page.on('request', (request) => requests.push(request));
    await page.goto(link);
    await page.getByRole('button', { name: 'Deny' }).waitFor();
    const secret = new URL(link).hash.slice(1);
    for (const request of requests) {
      assert.ok(!request.url().includes(secret), request.url());
      assert.equal((await request.allHeaders()).referer?.includes(secret) ?? false, false);
    }
    assert.deepEqual(requests.filter((request) => request.method() !== 'GET').map((request) => new URL(request.url()).pathname), ['/v1/question']);
  });
});
