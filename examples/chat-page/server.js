// A web app with users of its own, each of whom has a conversation with an agent.

import { createHmac, timingSafeEqual } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { extname } from 'node:path';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { text } from 'node:stream/consumers';

const { MAILROOM_URL: mailroom = 'http://127.0.0.1:8420', MAILROOM_TOKEN: token, AGENT: agent = 'tour', PORT: port = '3000' } = process.env;
const passwords = new Map([['ann', 'tiles'], ['bob', 'harbour']]); // yours are hashed, in a database

const threadOf = (user) => `chat-${user}`;

/** A cookie names the user and is signed. */
const sign = (user) => `${user}.${createHmac('sha256', token).update(`cookie of ${user}`).digest('hex')}`;

function userOf({ headers }) {
  const cookie = Buffer.from(/(?:^|; )chat=([^;]*)/.exec(headers.cookie)?.[1] ?? '');
  const user = cookie.toString().split('.')[0];
  const signed = Buffer.from(sign(user));
  return passwords.has(user) && cookie.length === signed.length && timingSafeEqual(cookie, signed) ? user : null;
}

// A user's token reaches one thread and ends after an hour. So whatever a page asks for, it sees nothing of other users,
// and the app need not check each request. Only the app has the tokens; a browser has the cookie.
const tokens = new Map();

async function tokenOf(user) {
  const known = tokens.get(user);
  if (known?.until > Date.now() + 60_000) return known.token;
  const until = Date.now() + 3_600_000;
  const made = await fetch(`${mailroom}/v1/tokens/limited`, {
    method: 'POST',
    headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
    body: JSON.stringify({ scopes: ['read', 'submit', 'decide'], threads: [threadOf(user)], expires_at: new Date(until).toISOString() }),
  });
  if (!made.ok) throw new Error(`no token for ${user}: ${await made.text()}`);
  tokens.set(user, { ...await made.json(), until });
  return tokens.get(user).token;
}

const some = (headers, names) => Object.fromEntries(names.map((name) => [name, headers[name]]).filter(([, value]) => value));

/** Passes a request of a page on to Mailroom, and the answer back as it comes: a stream is one answer that does not end. */
async function proxy(request, response, user) {
  const gone = new AbortController();
  response.on('close', () => gone.abort());
  const answer = await fetch(mailroom + request.url.slice('/mail'.length), {
    method: request.method,
    // Last-Event-ID is where a stream broke: Mailroom goes on behind it.
    headers: { ...some(request.headers, ['accept', 'content-type', 'last-event-id']), authorization: `Bearer ${await tokenOf(user)}` },
    body: request.method === 'GET' ? undefined : await text(request),
    signal: gone.signal,
  });
  if (answer.status === 401) { // the token has ended: the page asks again, with a new one
    tokens.delete(user);
    response.writeHead(503).end();
    return;
  }
  response.writeHead(answer.status, some(Object.fromEntries(answer.headers), ['content-type', 'cache-control', 'retry-after']));
  response.flushHeaders();
  if (answer.body) await pipeline(Readable.fromWeb(answer.body), response);
  else response.end();
}

const types = { '.html': 'text/html; charset=utf-8', '.js': 'text/javascript; charset=utf-8', '.css': 'text/css; charset=utf-8' };
const client = import.meta.resolve('mailroom');

async function file(response, url) {
  const content = await readFile(url);
  response.writeHead(200, { 'content-type': types[extname(url.pathname)], 'content-security-policy': "default-src 'self'" }).end(content);
}

async function handle(request, response) {
  const { pathname: path } = new URL(request.url, 'http://app');
  const user = userOf(request);
  const own = /^\/(page\.js|style\.css)$/.exec(path);
  const library = /^\/client\/(\w+\.js)$/.exec(path);
  if (own) return file(response, new URL(`public/${own[1]}`, import.meta.url));
  if (library) return file(response, new URL(library[1], client)); // of the package mailroom
  if (path === '/' && request.method === 'GET') return file(response, new URL(user ? 'public/chat.html' : 'public/sign-in.html', import.meta.url));
  if (request.method !== 'GET' && request.headers['sec-fetch-site'] !== 'same-origin') return response.writeHead(403).end('not from this page');
  if (path === '/sign-in' && request.method === 'POST') {
    // Anybody can send this form. Node reads no more of a body than its length says.
    if (!(Number(request.headers['content-length']) <= 65_536)) return response.writeHead(413, { connection: 'close' }).end('the form is too long');
    const form = new URLSearchParams(await text(request));
    const name = form.get('name') ?? '';
    const good = passwords.has(name) && passwords.get(name) === form.get('password');
    return response.writeHead(303, { location: '/', ...(good && { 'set-cookie': `chat=${sign(name)}; HttpOnly; SameSite=Lax; Path=/` }) }).end();
  }
  const proxied = path.startsWith('/mail/v1/') && request.url.startsWith('/mail/v1/');
  if (!proxied && path !== '/me') return response.writeHead(404).end('there is no such page');
  if (!user) return response.writeHead(401).end('sign in first');
  if (proxied) return proxy(request, response, user);
  return response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify({ thread: threadOf(user), agent }));
}

createServer((request, response) => {
  handle(request, response).catch((error) => {
    if (!response.destroyed) console.error(error.cause?.message ?? error.message); // else the page has left
    if (response.headersSent) response.destroy();
    else response.writeHead(503, { 'retry-after': '1' }).end();
  });
}).listen(Number(port), '127.0.0.1', function listening() { console.log(`http://127.0.0.1:${this.address().port}`); });
