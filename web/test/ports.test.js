// A page of an agent on another port of the same host, which a browser does not tell apart when it sends cookies.

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, request } from 'node:http';
import { after, before, describe, test } from 'node:test';

import { Mailroom } from '../../clients/js/mailroom.js';
import { open } from '../../clients/js/test/server.js';
import { launch, openPage, signIn } from './browser.js';

/** A preview that keeps the headers of each request. cookies are what it sets for the host. */
async function preview(t) {
  const seen = [];
  const at = { cookies: [] };
  const server = createServer((incoming, answer) => {
    seen.push({ path: incoming.url, headers: incoming.headers });
    answer.writeHead(200, { 'Content-Type': 'text/html', ...(at.cookies.length > 0 && { 'Set-Cookie': at.cookies }) }).end('<title>preview</title><p>The preview');
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => server.close());
  return Object.assign(at, { seen, url: `http://127.0.0.1:${server.address().port}` });
}

/** The status of a request of a program, which writes any header itself. */
function program(url, { method = 'GET', headers = {}, body } = {}) {
  return new Promise((resolve, reject) => {
    const sent = request(url, { method, headers: { ...headers, ...(body && { 'Content-Type': 'application/json' }) } }, (answer) => {
      answer.resume();
      resolve(answer.statusCode);
    });
    sent.on('upgrade', (answer, socket) => { socket.destroy(); resolve(answer.statusCode); });
    sent.on('error', reject);
    sent.end(body);
  });
}

/** Every way in which a page of another port asks the server. Returns what it could read. */
function attack(page, target) {
  return page.evaluate(async (to) => {
    const read = [];
    const tell = (what, value) => value && read.push(`${what}: ${value}`);
    const tryTo = async (what, f) => tell(what, await f().catch(() => ''));
    const credentials = 'include';
    await tryTo('fetch', async () => (await fetch(`${to}/v1/session`, { credentials })).text());
    await tryTo('fetch with a half', async () => (await fetch(`${to}/v1/session`, { credentials, headers: { Authorization: 'Session x' } })).text());
    await tryTo('write', async () => (await fetch(`${to}/v1/tokens`, { method: 'POST', credentials, body: '{"name":"x","scopes":["admin"]}' })).text());
    await tryTo('no-cors', async () => (await fetch(`${to}/v1/tokens`, { method: 'POST', mode: 'no-cors', credentials, body: '{"name":"y","scopes":["admin"]}' })).text());
    await tryTo('events', () => new Promise((resolve, reject) => {
      const events = new EventSource(`${to}/v1/stream`, { withCredentials: true });
      events.onmessage = ({ data }) => resolve(data);
      events.onerror = reject;
    }));
    await tryTo('socket', () => new Promise((resolve, reject) => {
      const socket = new WebSocket(`${to.replace('http', 'ws')}/v1/ws`);
      socket.onopen = () => socket.send('{"op":"auth","id":1,"session":"x"}');
      socket.onmessage = ({ data }) => resolve(data);
      socket.onclose = reject;
    }));
    const frame = document.body.appendChild(Object.assign(document.createElement('iframe'), { src: `${to}/` }));
    await new Promise((resolve) => { frame.onload = resolve; });
    await tryTo('frame', async () => frame.contentWindow.document.body?.textContent);
    const opened = window.open(`${to}/`);
    await tryTo('window', async () => opened?.document.body.textContent);
    opened?.close();
    tell('document.cookie', document.cookie);
    tell('localStorage', Object.keys(localStorage).join());
    tell('IndexedDB', (await indexedDB.databases()).map(({ name }) => name).join());
    return read;
  }, target);
}

describe('another port of the host', () => {
  let context;
  let close;

  before(async () => { [context, close] = await launch(); });
  after(() => close());

  for (const session of [true, false]) {
    test(`gets nothing that it can use, ${session ? 'while the operator is signed in' : 'without a session'}`, async (t) => {
      const server = await open(t, '');
      const operator = await openPage(t, context);
      if (session) {
        await signIn(operator, (await server.command('open')).trim());
        await operator.getByRole('heading', { name: 'Overview' }).waitFor();
      }
      const agent = await preview(t);
      const page = await context.newPage();
      t.after(() => page.close());
      await page.goto(agent.url);
      const read = await attack(page, server.url);
      t.diagnostic(`the page could read: ${JSON.stringify(read)}`);
      assert.deepEqual(read, []);

      // A program that serves the page has what the browser sent, and any header.
      const cookie = agent.seen.map(({ headers }) => headers.cookie ?? '').find((value) => value !== '') ?? '';
      t.diagnostic(`the preview got: ${JSON.stringify(agent.seen[0].headers).replace(/=mr_\w+/, '=mr_…')}`);
      t.diagnostic(`cookies of the browser: ${JSON.stringify((await context.cookies()).map(({ name, domain, httpOnly, sameSite }) => ({ name, domain, httpOnly, sameSite })))}`);
      if (session) {
        const stored = await operator.evaluate(async () => (await indexedDB.databases()).map(({ name }) => name));
        t.diagnostic(`storage of the console: ${JSON.stringify(stored)}`);
        assert.match(cookie, /^mailroom_/, 'the browser did not send the cookie, so this test shows nothing');
      }
      const secret = cookie.split('=')[1] ?? '';
      const forged = { Origin: server.url, Referer: `${server.url}/`, 'Sec-Fetch-Site': 'same-origin', 'Sec-Fetch-Mode': 'cors', 'Sec-Fetch-Dest': 'empty', ...(cookie && { Cookie: cookie }) };
      const upgrade = { Connection: 'Upgrade', Upgrade: 'websocket', 'Sec-WebSocket-Version': '13', 'Sec-WebSocket-Key': 'AAAAAAAAAAAAAAAAAAAAAA==' };
      for (const authorization of [undefined, 'Session ', `Session ${secret || 'x'}`, `Bearer ${secret || 'x'}`]) {
        const headers = { ...forged, ...(authorization && { Authorization: authorization }) };
        for (const [method, path, body] of [
          ['GET', '/v1/session'], ['GET', '/v1/threads'], ['GET', '/v1/stream'], ['GET', '/v1/tokens'], ['GET', '/metrics'], ['POST', '/v1/messages', '{"text":"x"}'],
          ['POST', '/v1/tokens', '{"name":"x","scopes":["admin"]}'], ['POST', '/v1/links', '{}'], ['POST', '/v1/tokens/limited', '{}'], ['DELETE', '/v1/session'],
        ]) {
          assert.equal(await program(`${server.url}${path}`, { method, headers, body }), 401, `${method} ${path}, ${authorization}`);
        }
        if (authorization) assert.equal(await program(`${server.url}/v1/ws`, { headers: { ...headers, ...upgrade } }), 401, `a socket, ${authorization}`);
      }
      const names = (await new Mailroom(server).tokens()).items.map(({ kind }) => kind);
      assert.deepEqual(names, session ? ['session'] : [], 'a token was made');
    });
  }

  test('cannot sign a browser in as another user, only out', async (t) => {
    const server = await open(t, '');
    const eve = JSON.parse(await server.command('token', 'create', 'eve', '--scope', 'read,submit', '-o', 'json')).token;
    const { secret } = await (await fetch(`${server.url}/v1/links`, { method: 'POST', headers: { Authorization: `Bearer ${eve}` } })).json();
    const made = await fetch(`${server.url}/v1/session`, { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify({ secret }) });
    const [hers] = made.headers.getSetCookie()[0].split(';');
    const page = await openPage(t, context);
    await signIn(page, (await server.command('open')).trim());
    await page.getByRole('heading', { name: 'Overview' }).waitFor();
    const agent = await preview(t);
    const other = await context.newPage();
    t.after(() => other.close());
    // Beside the cookie of the console: more specific ones are sent first.
    agent.cookies = ['/v1', '/v1/session', '/v1/threads'].map((path) => `${hers}; Path=${path}`);
    await other.goto(agent.url);
    await page.reload();
    await page.locator('nav footer').getByText('admin', { exact: true }).waitFor();
    // In place of it.
    agent.cookies = [`${hers}; Path=/; HttpOnly`];
    await other.goto(agent.url);
    await page.reload();
    await page.getByRole('heading', { name: 'Sign in to Mailroom' }).waitFor();
    assert.equal(await page.getByText('eve').count(), 0);
    await signIn(page, (await server.command('open')).trim());
    await page.locator('nav footer').getByText('admin', { exact: true }).waitFor();
  });
});
