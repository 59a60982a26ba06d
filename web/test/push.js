// Alerts in a browser, for tests. A push service of the internet is replaced: the test takes what the server posts,
// decrypts it with another implementation of the encryption, and hands it to the service worker with the debugger, as a
// browser does.

import assert from 'node:assert/strict';
import { createECDH, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:http';

import ece from 'http_ece';

import { openPage, signIn } from './browser.js';

/** A push service with one browser. take returns the next message that the server posts: its headers and its payload. */
export class Service {
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
    return this.#decrypt(this.#come.shift() ?? await new Promise((resolve) => { this.#waiting.push(resolve); }));
  }

  /** The messages that have come and were not taken. */
  rest() { return this.#come.splice(0).map((message) => this.#decrypt(message)); }

  #decrypt({ headers, body }) {
    return { headers, payload: JSON.parse(ece.decrypt(body, { version: 'aes128gcm', privateKey: this.#key, authSecret: this.#auth })) };
  }
}

/** A private key of subscriptions. */
export function randomKey() {
  const key = createECDH('prime256v1');
  key.generateKeys();
  return key.getPrivateKey().toString('base64url').padStart(43, 'A');
}

/** A browser that gets alerts, with the page Alerts open. */
export class AlertedBrowser {
  #context;
  #base;
  #delivers;

  constructor(context, page, base) { [this.#context, this.page, this.#base] = [context, page, base]; }

  /** Opens the page Alerts, in a browser whose push service is the given one. */
  static async visit(t, context, server, service, base = server.url) {
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
    await signIn(page, `${base}/${link.slice(link.indexOf('#'))}`);
    await page.getByRole('heading', { name: 'Overview' }).waitFor();
    await page.evaluate(() => { location.hash = '#/alerts'; });
    await page.getByRole('heading', { name: 'This browser' }).waitFor();
    return new AlertedBrowser(context, page, base);
  }

  /** Subscribes, on the page. */
  async turnOn() {
    await this.page.getByRole('button', { name: 'Turn on', exact: true }).click();
    await this.page.getByText('this browser', { exact: true }).waitFor();
  }

  /** The service worker of the pages. */
  get worker() { return this.#context.serviceWorkers().find((worker) => worker.url() === `${this.#base}/sw.js`); }

  /** Does something and waits until the worker has shown a notification. Chromium forgets one that is asked for while it is shown. */
  async #untilShown(act) {
    await this.worker.evaluate(() => {
      const { registration } = self;
      const show = registration.constructor.prototype.showNotification;
      self.shown = new Promise((resolve) => {
        registration.showNotification = async (...given) => { await show.apply(registration, given); resolve(); };
      });
    });
    await act();
    await this.worker.evaluate(() => self.shown);
  }

  /** Hands a payload to the service worker, as a push service does. */
  async deliver(data) {
    this.#delivers ??= await this.#connect();
    await this.#untilShown(() => this.#delivers(data));
  }

  async #connect() {
    const session = await this.#context.newCDPSession(this.page);
    const registered = new Promise((resolve) => {
      session.on('ServiceWorker.workerRegistrationUpdated', ({ registrations }) => {
        const found = registrations.find(({ scopeURL, isDeleted }) => scopeURL === `${this.#base}/` && !isDeleted);
        if (found) resolve(found.registrationId);
      });
    });
    await session.send('ServiceWorker.enable');
    const registrationId = await registered;
    return (data) => session.send('ServiceWorker.deliverPushMessage', { origin: `${new URL(this.#base).origin}/`, registrationId, data });
  }

  /** The notifications that are shown, once look returns true for them. */
  async shown(look) {
    for (let tries = 1; ; tries++) {
      const all = await this.page.evaluate(async () => (await (await navigator.serviceWorker.getRegistration('./')).getNotifications())
        .map(({ title, body, tag, actions, requireInteraction }) => ({ title, body, tag, actions: actions.map((a) => a.title), requireInteraction })));
      if (look(all)) return all;
      assert.ok(tries < 6000, `after ten minutes the notifications are ${JSON.stringify(all)}`);
      await new Promise((resolve) => { setTimeout(resolve, 100); });
    }
  }

  /** Closes the notifications that do not have this tag. */
  async dismiss(but) {
    await this.page.evaluate(async (kept) => (await (await navigator.serviceWorker.getRegistration('./')).getNotifications()).filter(({ tag }) => tag !== kept).forEach((n) => n.close()), but);
  }

  /** Taps a button of the only notification. */
  tap(action) {
    return this.#untilShown(() => this.worker.evaluate(async (chosen) => {
      const [notification] = await self.registration.getNotifications();
      self.dispatchEvent(new NotificationEvent('notificationclick', { notification, action: chosen }));
    }, action));
  }
}
