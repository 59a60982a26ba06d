// Alerts in a browser, from the server to the tap on a button.

import assert from 'node:assert/strict';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';

import { Mailroom } from '../../clients/js/mailroom.js';
import { open } from '../../clients/js/test/server.js';
import { violations } from './axe.js';
import { launch } from './browser.js';
import { shoot, shots } from './person.js';
import { below } from './proxy.js';
import { AlertedBrowser, randomKey, Service } from './push.js';

const agents = `
[agents.tour]
kind = "tour"
pace = "0s"
`;

const withTarget = (url) => `${agents}
[server]
url = "${url}"
[targets.browsers]
kind = "push"
contact = "mailto:ops@example.org"
key_env = "PUSH_KEY"
allow = ["127.0.0.1"]
[rules.all]
when = ["ticket"]
to = ["browsers"]
text = "full"
`;

/** A server whose alerts go to browsers, with links to itself. */
async function serve(t) {
  process.env.PUSH_KEY = randomKey();
  const server = await open(t, agents);
  await server.kill();
  await writeFile(join(server.folder, 'mailroom.toml'), withTarget(server.url));
  await server.start();
  return { server, client: new Mailroom(server) };
}

async function ask(client, thread) {
  const asked = await client.send({ thread, text: 'show me', agent: 'tour' });
  for await (const _ of client.follow({ run: asked.run, until: 'waiting' }));
  return asked;
}

test('another implementation decrypts what the server sends, and an unknown browser is gone', async (t) => {
  const { server, client } = await serve(t);
  const service = await Service.start(t);
  const { id } = await client.subscribePush(service.subscription);
  await fetch(`${server.url}/v1/alerts/test`, { method: 'POST', headers: { Authorization: `Bearer ${server.token}`, 'Content-Type': 'application/json' }, body: '{"target":"browsers"}' });
  const { headers, payload } = await service.take();
  assert.deepEqual([headers.ttl, headers.urgency, headers['content-encoding'], headers.topic.length], ['86400', 'normal', 'aes128gcm', 32]);
  assert.match(headers.authorization, /^vapid t=[\w-]+\.[\w-]+\.[\w-]+, k=[\w-]{87}$/);
  assert.equal(payload.title, 'Test of Mailroom');
  assert.equal(payload.buttons, undefined);

  service.status = 410;
  await ask(client, 'asks');
  const question = await service.take();
  assert.equal(question.headers.urgency, 'high');
  assert.deepEqual(question.payload.buttons.map(({ label, url }) => [label, url]), [['Approve', `${server.url}/v1/question/decision`], ['Deny', `${server.url}/v1/question/decision`]]);
  for (;;) {
    const { subscriptions } = await client.push();
    assert.equal(subscriptions[0].id, id);
    if (subscriptions[0].gone) break;
    await new Promise((resolve) => { setTimeout(resolve, 100); });
  }
});

describe('a browser that gets alerts', () => {
  let context;
  let close;

  before(async () => {
    await mkdir(shots, { recursive: true });
    [context, close] = await launch({ reducedMotion: 'reduce', notifications: true });
  });
  after(() => close());

  test('a question is shown, and a tap on Approve approves it', async (t) => {
    const { server, client } = await serve(t);
    const service = await Service.start(t);
    const browser = await AlertedBrowser.visit(t, context, server, service);
    const { page } = browser;
    assert.deepEqual(await violations(page), []);
    await browser.turnOn();
    assert.deepEqual(await violations(page), []);
    await shoot(page, 'console-alerts');
    const asked = await ask(client, 'asks');
    const { payload } = await service.take();
    await browser.deliver(JSON.stringify(payload));
    const [notification] = await browser.shown((all) => all.length === 1);
    assert.deepEqual([notification.title, notification.body, notification.tag, notification.actions, notification.requireInteraction], [payload.title, payload.body, payload.tag, ['Approve', 'Deny'], true]);
    await browser.deliver(JSON.stringify({ ...payload, repeated: true }));
    assert.equal((await browser.shown((all) => all.length === 1)).length, 1, 'a repeat replaces the notification');
    await browser.tap('0');
    const [result] = await browser.shown((all) => all.length === 1 && all[0].body === 'Approved.');
    assert.deepEqual([result.tag, result.actions], [payload.tag, []]);
    for await (const _ of client.follow({ run: asked.run }));
    const { items } = await client.tickets({ limit: 10 });
    const { decision, decided_by: by } = items.find(({ run, kind }) => run === asked.run && kind === 'approval');
    assert.deepEqual([decision, by], ['approve', 'alert:browsers']);

    // The button of a question that is decided says so.
    await browser.deliver(JSON.stringify({ ...payload, tag: 'late' }));
    await browser.shown((all) => all.some(({ tag }) => tag === 'late'));
    await browser.dismiss('late');
    await browser.shown((all) => all.length === 1);
    await browser.tap('1');
    await browser.shown((all) => all.length === 1 && all[0].actions.length === 0 && all[0].body !== '' && all[0].body !== 'Denied.');

    await page.getByRole('button', { name: 'Turn off', exact: true }).click();
    await page.getByRole('button', { name: 'Turn on', exact: true }).waitFor();
    assert.deepEqual((await client.push()).subscriptions, []);
  });

  test('what cannot be read is shown as an alert, and hostile text stays text', async (t) => {
    const { server } = await serve(t);
    const browser = await AlertedBrowser.visit(t, context, server, await Service.start(t));
    await browser.turnOn();
    const hostile = '<img src=x onerror="self.hacked=1">';
    for (const [data, title] of [
      ['', 'An alert of Mailroom'], ['{', 'An alert of Mailroom'], ['null', 'An alert of Mailroom'], ['[]', 'Mailroom'], ['{"title":5,"buttons":[null,{"label":1}]}', 'Mailroom'],
      [JSON.stringify({ title: hostile, tag: 'h', url: 'javascript:alert(1)', buttons: [{ label: 'x', url: 'https://evil.example/', body: '{}' }] }), hostile],
    ]) {
      await browser.deliver(data);
      const all = await browser.shown((found) => found.length > 0);
      assert.equal(all.at(-1).title, title);
      await browser.dismiss();
      await browser.shown((found) => found.length === 0);
    }
  });

  test('a button of another address opens the page and posts nothing', async (t) => {
    const { server } = await serve(t);
    const browser = await AlertedBrowser.visit(t, context, server, await Service.start(t));
    await browser.turnOn();
    await browser.deliver(JSON.stringify({ title: 'x', body: '', tag: 'x', url: `${server.url}/decide#x`, buttons: [{ label: 'Approve', url: 'https://evil.example/v1/question/decision', body: '{}' }] }));
    const done = await browser.worker.evaluate(async () => {
      const posted = [];
      self.fetch = async (url) => { posted.push(String(url)); return new Response('{}'); };
      const opened = new Promise((resolve) => { self.clients.openWindow = async (url) => resolve(url); });
      const [notification] = await self.registration.getNotifications();
      self.dispatchEvent(new NotificationEvent('notificationclick', { notification, action: '0' }));
      return { opened: await opened, posted };
    });
    assert.deepEqual(done, { opened: `${server.url}/decide#x`, posted: [] });
  });

  test('signing out ends the alerts of the browser', async (t) => {
    const { server, client } = await serve(t);
    const browser = await AlertedBrowser.visit(t, context, server, await Service.start(t));
    const { page } = browser;
    await browser.turnOn();
    assert.equal((await client.push()).subscriptions.length, 1);
    await page.getByRole('button', { name: 'Sign out', exact: true }).click();
    await page.getByRole('heading', { name: 'Sign in to Mailroom' }).waitFor();
    assert.deepEqual((await client.push()).subscriptions, []);
  });

  test('the shell is kept for times without the server, and no answer of the API', async (t) => {
    const { server, client } = await serve(t);
    const base = await below(t, server.url, '/mail');
    const browser = await AlertedBrowser.visit(t, context, server, await Service.start(t), base);
    const { page } = browser;
    await browser.turnOn();
    await page.waitForFunction(() => navigator.serviceWorker.controller !== null);
    await page.reload();
    await page.getByRole('heading', { name: 'This browser' }).waitFor();
    await page.waitForFunction(async () => { // each file is kept on its own, after the page has it
      const kept = (await Promise.all((await caches.keys()).map(async (name) => (await (await caches.open(name)).keys()).map(({ url }) => url)))).flat();
      const named = [...document.querySelectorAll('link[rel="stylesheet"], script[src]')].map((node) => node.href ?? node.src);
      return named.length >= 4 && [location.href.split('#')[0], ...named].every((url) => kept.includes(url));
    });
    const kept = await page.evaluate(async () => (await Promise.all((await caches.keys()).map(async (name) => (await (await caches.open(name)).keys()).map(({ url }) => new URL(url).pathname)))).flat());
    assert.ok(kept.includes('/mail/console/main.js'), kept.join(' '));
    assert.deepEqual(kept.filter((path) => path.includes('/v1/') || !path.startsWith('/mail/')), []);
    assert.equal((await client.push()).subscriptions.length, 1);
    await server.kill();
    await page.reload();
    await page.getByText('The server has not answered yet.').waitFor();
    await server.start();
    await page.getByRole('heading', { name: 'This browser' }).waitFor();
  });
});
