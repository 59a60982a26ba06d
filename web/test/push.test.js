// Alerts in a browser, from the server to the tap on a button. A push service of the internet is replaced: the test
// takes what the server posts, decrypts it with another implementation of the encryption, and hands it to the service
// worker with the debugger, as a browser does.

import assert from 'node:assert/strict';
import { createECDH, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { mkdir, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';

import ece from 'http_ece';

import { Mailroom } from '../../clients/js/mailroom.js';
import { open } from '../../clients/js/test/server.js';
import { violations } from './axe.js';
import { launch, openPage } from './browser.js';
import { shots } from './person.js';
import { below } from './proxy.js';

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

/** A push service with one browser. take returns the next message that the server posts: its headers and its payload. */
class Service {
  #key = createECDH('prime256v1');
  #auth = randomBytes(16).toString('base64url');
  #waiting = [];
  #come = [];
  status = 201;

  static async start(t) {
    const service = new Service();
    service.#key.generateKeys();
    const http = createServer(async (request, response) => {
      const pieces = [];
      for await (const piece of request) pieces.push(piece);
      response.writeHead(service.status, { Location: '/message/1' }).end();
      const taker = service.#waiting.shift();
      const message = { headers: request.headers, body: Buffer.concat(pieces) };
      if (taker) taker(message);
      else service.#come.push(message);
    }).listen(0, '127.0.0.1');
    await once(http, 'listening');
    t.after(() => http.close());
    service.endpoint = `http://127.0.0.1:${http.address().port}/push/1`;
    return service;
  }

  get subscription() {
    return { endpoint: this.endpoint, keys: { p256dh: this.#key.getPublicKey('base64url'), auth: this.#auth } };
  }

  async take() {
    const { headers, body } = this.#come.shift() ?? await new Promise((resolve) => { this.#waiting.push(resolve); });
    return { headers, payload: JSON.parse(ece.decrypt(body, { version: 'aes128gcm', privateKey: this.#key, authSecret: this.#auth })) };
  }
}

/** A server whose alerts go to browsers, with links to itself. */
async function serve(t) {
  process.env.PUSH_KEY = randomKey();
  const server = await open(t, agents);
  await server.kill();
  await writeFile(join(server.folder, 'mailroom.toml'), withTarget(server.url));
  await server.start();
  return { server, client: new Mailroom(server) };
}

function randomKey() {
  const key = createECDH('prime256v1');
  key.generateKeys();
  return key.getPrivateKey().toString('base64url').padStart(43, 'A');
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
    [context, close] = await launch({ reducedMotion: 'reduce' });
  });
  after(() => close());

  /** Opens the page Alerts, in a browser whose push service is the given one. */
  async function visit(t, server, service, base = server.url) {
    await context.grantPermissions(['notifications'], { origin: new URL(base).origin });
    const page = await openPage(t, context);
    await page.addInitScript(({ endpoint, keys }) => {
      const made = () => (localStorage.getItem('key') === null ? null : {
        endpoint, toJSON: () => ({ endpoint, expirationTime: null, keys }),
        options: { applicationServerKey: Uint8Array.from(atob(localStorage.getItem('key').replaceAll('-', '+').replaceAll('_', '/')), (c) => c.charCodeAt(0)).buffer },
        unsubscribe: async () => { localStorage.removeItem('key'); return true; },
      });
      PushManager.prototype.subscribe = async ({ applicationServerKey }) => { localStorage.setItem('key', applicationServerKey); return made(); };
      PushManager.prototype.getSubscription = async () => made();
    }, service.subscription);
    const link = (await server.command('open')).trim();
    await page.goto(`${base}/${link.slice(link.indexOf('#'))}`);
    await page.getByRole('navigation', { name: 'Pages' }).waitFor({ state: 'attached' });
    await page.evaluate(() => { location.hash = '#/alerts'; });
    await page.getByRole('heading', { name: 'This browser' }).waitFor();
    return page;
  }

  /** The service worker of the pages below an address. */
  const workerOf = (base) => context.serviceWorkers().find((worker) => worker.url() === `${base}/sw.js`);

  /** Does something and waits until the worker has shown a notification. Chromium forgets one that is asked for while it is shown. */
  async function untilShown(base, act) {
    const worker = workerOf(base);
    await worker.evaluate(() => {
      const { registration } = self;
      const show = registration.constructor.prototype.showNotification;
      self.shown = new Promise((resolve) => {
        registration.showNotification = async (...given) => { await show.apply(registration, given); resolve(); };
      });
    });
    await act(worker);
    await worker.evaluate(() => self.shown);
  }

  /** Returns what hands a payload to the service worker of a page, as a push service does. */
  async function courier(page, base) {
    const session = await context.newCDPSession(page);
    const registered = new Promise((resolve) => {
      session.on('ServiceWorker.workerRegistrationUpdated', ({ registrations }) => {
        const found = registrations.find(({ scopeURL, isDeleted }) => scopeURL === `${base}/` && !isDeleted);
        if (found) resolve(found.registrationId);
      });
    });
    await session.send('ServiceWorker.enable');
    const registrationId = await registered;
    return (data) => untilShown(base, () => session.send('ServiceWorker.deliverPushMessage', { origin: `${new URL(base).origin}/`, registrationId, data }));
  }

  /** The notifications that are shown, once look returns true for them. */
  async function shown(page, look) {
    for (let tries = 0; ; tries++) {
      const all = await page.evaluate(async () => (await (await navigator.serviceWorker.getRegistration('./')).getNotifications())
        .map(({ title, body, tag, actions, requireInteraction }) => ({ title, body, tag, actions: actions.map((a) => a.title), requireInteraction })));
      if (look(all)) return all;
      assert.ok(tries < 100, `the notifications are ${JSON.stringify(all)}`);
      await new Promise((resolve) => { setTimeout(resolve, 100); });
    }
  }

  /** Taps a button of the only notification. */
  const tap = (base, action) => untilShown(base, (worker) => worker.evaluate(async (chosen) => {
    const [notification] = await self.registration.getNotifications();
    self.dispatchEvent(new NotificationEvent('notificationclick', { notification, action: chosen }));
  }, action));

  test('a question is shown, and a tap on Approve approves it', async (t) => {
    const { server, client } = await serve(t);
    const service = await Service.start(t);
    const page = await visit(t, server, service);
    assert.deepEqual(await violations(page), []);
    await page.getByRole('button', { name: 'Turn on', exact: true }).click();
    await page.getByText('this browser', { exact: true }).waitFor();
    assert.deepEqual(await violations(page), []);
    await page.screenshot({ path: `${shots}console-alerts.png` });
    const asked = await ask(client, 'asks');
    const { payload } = await service.take();
    const deliver = await courier(page, server.url);
    await deliver(JSON.stringify(payload));
    const [notification] = await shown(page, (all) => all.length === 1);
    assert.deepEqual([notification.title, notification.body, notification.tag, notification.actions, notification.requireInteraction], [payload.title, payload.body, payload.tag, ['Approve', 'Deny'], true]);
    await deliver(JSON.stringify({ ...payload, repeated: true }));
    assert.equal((await shown(page, (all) => all.length === 1)).length, 1, 'a repeat replaces the notification');
    await tap(server.url, '0');
    const [result] = await shown(page, (all) => all.length === 1 && all[0].body === 'Approved.');
    assert.deepEqual([result.tag, result.actions], [payload.tag, []]);
    for await (const _ of client.follow({ run: asked.run }));
    const { items } = await client.tickets({ limit: 10 });
    const { decision, decided_by: by } = items.find(({ run, kind }) => run === asked.run && kind === 'approval');
    assert.deepEqual([decision, by], ['approve', 'alert:browsers']);

    // The button of a question that is decided says so.
    await deliver(JSON.stringify({ ...payload, tag: 'late' }));
    await shown(page, (all) => all.some(({ tag }) => tag === 'late'));
    await page.evaluate(async () => (await (await navigator.serviceWorker.getRegistration('./')).getNotifications()).filter(({ tag }) => tag !== 'late').forEach((n) => n.close()));
    await shown(page, (all) => all.length === 1);
    await tap(server.url, '1');
    await shown(page, (all) => all.length === 1 && all[0].actions.length === 0 && all[0].body !== '' && all[0].body !== 'Denied.');

    await page.getByRole('button', { name: 'Turn off', exact: true }).click();
    await page.getByRole('button', { name: 'Turn on', exact: true }).waitFor();
    assert.deepEqual((await client.push()).subscriptions, []);
  });

  test('what cannot be read is shown as an alert, and hostile text stays text', async (t) => {
    const { server } = await serve(t);
    const page = await visit(t, server, await Service.start(t));
    await page.getByRole('button', { name: 'Turn on', exact: true }).click();
    await page.getByText('this browser', { exact: true }).waitFor();
    const deliver = await courier(page, server.url);
    const hostile = '<img src=x onerror="self.hacked=1">';
    for (const [data, title] of [
      ['', 'An alert of Mailroom'], ['{', 'An alert of Mailroom'], ['null', 'An alert of Mailroom'], ['[]', 'Mailroom'], ['{"title":5,"buttons":[null,{"label":1}]}', 'Mailroom'],
      [JSON.stringify({ title: hostile, tag: 'h', url: 'javascript:alert(1)', buttons: [{ label: 'x', url: 'https://evil.example/', body: '{}' }] }), hostile],
    ]) {
      await deliver(data);
      const all = await shown(page, (found) => found.length > 0);
      assert.equal(all.at(-1).title, title);
      await page.evaluate(async () => (await (await navigator.serviceWorker.getRegistration('./')).getNotifications()).forEach((n) => n.close()));
      await shown(page, (found) => found.length === 0);
    }
  });

  test('a button of another address opens the page and posts nothing', async (t) => {
    const { server } = await serve(t);
    const page = await visit(t, server, await Service.start(t));
    await page.getByRole('button', { name: 'Turn on', exact: true }).click();
    await page.getByText('this browser', { exact: true }).waitFor();
    const deliver = await courier(page, server.url);
    await deliver(JSON.stringify({ title: 'x', body: '', tag: 'x', url: `${server.url}/decide#x`, buttons: [{ label: 'Approve', url: 'https://evil.example/v1/question/decision', body: '{}' }] }));
    const done = await workerOf(server.url).evaluate(async () => {
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
    const page = await visit(t, server, await Service.start(t));
    await page.getByRole('button', { name: 'Turn on', exact: true }).click();
    await page.getByText('this browser', { exact: true }).waitFor();
    assert.equal((await client.push()).subscriptions.length, 1);
    await page.getByRole('button', { name: 'Sign out', exact: true }).click();
    await page.getByRole('heading', { name: 'Sign in to Mailroom' }).waitFor();
    assert.deepEqual((await client.push()).subscriptions, []);
  });

  test('the shell is kept for times without the server, and no answer of the API', async (t) => {
    const { server, client } = await serve(t);
    const base = await below(t, server.url, '/mail');
    const page = await visit(t, server, await Service.start(t), base);
    await page.getByRole('button', { name: 'Turn on', exact: true }).click();
    await page.getByText('this browser', { exact: true }).waitFor();
    await page.waitForFunction(() => navigator.serviceWorker.controller !== null);
    await page.reload();
    await page.getByRole('heading', { name: 'This browser' }).waitFor();
    await page.waitForFunction(async () => (await Promise.all((await caches.keys()).map(async (name) => (await (await caches.open(name)).keys()).length))).some((n) => n > 10));
    const kept = await page.evaluate(async () => (await Promise.all((await caches.keys()).map(async (name) => (await (await caches.open(name)).keys()).map(({ url }) => new URL(url).pathname)))).flat());
    assert.ok(kept.includes('/mail/console/main.js'), kept.join(' '));
    assert.deepEqual(kept.filter((path) => path.includes('/v1/') || !path.startsWith('/mail/')), []);
    assert.equal((await client.push()).subscriptions.length, 1);
    await server.kill();
    await page.reload();
    await page.getByRole('heading', { name: 'Sign in to Mailroom' }).waitFor();
    await server.start();
  });
});
