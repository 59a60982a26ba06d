// What a client and a worker say of an address at which no Mailroom server answers.

import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { createServer as createPlain } from 'node:http';
import { createServer as createSecure } from 'node:https';
import { createServer as createRaw } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';

import { Mailroom } from '../mailroom.js';
import { work } from '../worker/index.js';
import { gate, serve } from './working.js';

const quiet = { debug() {}, info() {}, warn() {}, error() {} };

async function listen(t, server) {
  const sockets = new Set();
  server.on('connection', (socket) => { sockets.add(socket); });
  t.after(() => {
    server.close();
    for (const socket of sockets) socket.destroy();
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return `127.0.0.1:${server.address().port}`;
}

const answering = (status, body, headers = {}) => createPlain((_, response) => response.writeHead(status, headers).end(body));
const html = { 'content-type': 'text/html' };

async function secure(t) {
  const folder = await mkdtemp(join(tmpdir(), 'mailroom-tls-'));
  t.after(() => rm(folder, { recursive: true }));
  const [key, cert] = ['key', 'cert'].map((name) => join(folder, name));
  const request = ['req', '-x509', '-newkey', 'rsa:2048', '-nodes', '-keyout', key, '-out', cert, '-days', '2', '-subj', '/CN=x'];
  await promisify(execFile)('openssl', request);
  return createSecure({ key: await readFile(key), cert: await readFile(cert) }, (_, response) => response.end('{}'));
}

/** Resolves with what ends a worker, and with what a call and a reader of a client throw. */
async function told(t, url) {
  const worker = work('js', () => {}, { url, token: 'mr_secret', log: quiet });
  t.after(() => worker.stop().catch(() => {}));
  const client = new Mailroom({ url, token: 'mr_secret', tries: 1 });
  const outcomes = await Promise.allSettled([worker.done, client.agents(), client.followAll().next()]);
  return outcomes.map(({ reason }) => reason);
}

for (const [what, start, scheme, expected] of [
  ['a redirect', () => answering(301, '', { location: 'https://login.example/in?secret=1' }), 'http',
    /redirects to https:\/\/login\.example, and a token is not sent on; give the address of the server itself$/],
  ['a web page', () => answering(200, '<h1>hello</h1>', html), 'http', /answered 200, and not as a Mailroom server does/],
  ['a page that is not found', () => answering(404, '<h1>no</h1>', html), 'http', /answered 404, and not as a Mailroom server/],
  ['JSON of another program', () => answering(200, '[]'), 'http', /answered 200, and not as a Mailroom server does/],
  ['a certificate that is not trusted', secure, 'https', /^the certificate of https:.* is not trusted \(self-signed .*NODE_EXTRA/],
  ['no TLS', () => answering(200, '{}'), 'https', /does not speak TLS; if it has no certificate, its address begins with http:$/],
  ['TLS where none is expected', () => answering(400, 'Client sent an HTTP request to an HTTPS server.\n'), 'http',
    /answered 400, .* its address begins with https:$/],
  ['no HTTP', () => createRaw((socket) => socket.on('error', () => {}).end('SSH-2.0-x\r\n')), 'http', /does not speak HTTP/],
]) {
  test(`${what} ends a worker, a call and a reader with one sentence`, { timeout: 120_000 }, async (t) => {
    const errors = await told(t, `${scheme}://${await listen(t, await start(t))}`);
    for (const [i, error] of errors.entries()) {
      if (what === 'JSON of another program' && i === 1) continue; // a list may be empty
      assert.match(error?.message ?? 'none', expected, `${i}`);
      assert.doesNotMatch(error.message, /mr_secret|secret=1|\n/);
    }
  });
}

test('a name without an address ends a worker that never had a server', { timeout: 120_000 }, async () => {
  const { done } = work('js', () => {}, { url: 'http://no-such-name.invalid', log: quiet });
  await assert.rejects(done, /no answer from the server at http:\/\/no-such-name\.invalid: its name is not known/);
});

test('a server that is not there is waited for, and the log says so once', { timeout: 120_000 }, async (t) => {
  const bench = await serve(t);
  const { url } = bench.server;
  await bench.server.kill();
  const [tried, tries] = [gate(), { left: 3 }];
  const counting = async (...given) => {
    if (--tries.left < 0) tried.open();
    return fetch(...given);
  };
  const worker = bench.start({ js: () => 'here' }, { url, fetch: counting });
  const { level, server, error } = await bench.logged('waits for the server');
  assert.deepEqual([level, server], ['warn', `${url}/`]);
  assert.match(error, /no answer from the server at .* \(connect ECONNREFUSED/);
  await tried.opened;
  await bench.server.start();
  await worker.ready;
  assert.equal(bench.lines.filter(({ message }) => message.includes('waits for the server')).length, 1);
  await worker.stop();
});

test('a worker whose server was there waits for what stands in its place', { timeout: 120_000 }, async (t) => {
  let place = null;
  const moved = async (...given) => place ?? fetch(...given);
  const bench = await serve(t, (s) => `hello ${s.text}`, { fetch: moved, config: 'lease = "2s"\nrenew = "1s"\n' });
  place = new Response('<h1>maintenance</h1>', { status: 404 });
  const { error } = await bench.logged('waits for the server');
  assert.match(error, /answered 404, and not as a Mailroom server does/);
  place = null;
  assert.equal((await bench.end(await bench.send('you'))).reply, 'hello you');
});

test('an address with a user name or a password is refused, and shown nowhere', async () => {
  for (const url of ['http://ann:s3cret@127.0.0.1:8420', 'http://ann@127.0.0.1:8420', 'http://ann:s3cret@', 'ftp://127.0.0.1']) {
    for (const start of [() => work('js', () => {}, { url }), () => new Mailroom({ url })]) {
      assert.throws(start, (error) => {
        assert.match(error.message, /^the address of the server .*; give one such as http:\/\/127\.0\.0\.1:8420$/);
        for (const text of [error.stack, JSON.stringify(error), String(error.cause)]) assert.doesNotMatch(text, /s3cret|ann@/);
        return error.code === 'invalid';
      });
    }
  }
});

test('a token that cannot be one is refused, and shown nowhere', async () => {
  const token = 's3cret\n';
  const shown = (error) => error.code === 'unauthenticated' && !JSON.stringify([error.stack, error.message]).includes('s3cret');
  assert.throws(() => work('js', () => {}, { token }), shown);
  await assert.rejects(new Mailroom({ url: 'http://127.0.0.1:1', token }).agents(), shown);
});
