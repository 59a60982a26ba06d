import assert from 'node:assert/strict';
import { test } from 'node:test';

import { Parser } from '../follow.js';
import { Mailroom } from '../mailroom.js';
import { Alarm, Pauses } from '../pause.js';
import { open } from './server.js';

const encoder = new TextEncoder();

const entry = (seq, kind = 'step') => ({ thread: 't', seq, kind, run: 'r', attempt: 1, at: '', body: { name: 'ü' } });
const sent = (seq, kind) => `event: entry\nid: ${seq}\ndata: ${JSON.stringify(entry(seq, kind))}\n\n`;

test('events do not depend on how their bytes are split', () => {
  const bytes = encoder.encode(`: still here\n\n${sent(1)}event: delta\nid: 1:4\ndata: {"text":"ü👋"}\n\nevent: of tomorrow\ndata: {}\n\n${sent(2).replaceAll('\n', '\r\n')}`);
  const whole = [...new Parser().take(bytes)];
  assert.deepEqual(whole.map(({ kind, cursor }) => [kind, cursor]), [['entry', '1'], ['delta', '1:4'], ['entry', '2']]);
  for (let cut = 1; cut < bytes.length; cut++) {
    const parser = new Parser();
    assert.deepEqual([...parser.take(bytes.subarray(0, cut)), ...parser.take(bytes.subarray(cut))], whole, `cut at ${cut}`);
  }
});

test('delays grow to a bound, are random, and are at least Retry-After', () => {
  const pauses = new Pauses(100, 1000);
  for (const bound of [100, 200, 400, 800, 1000, 1000]) assert.ok(pauses.next() <= bound);
  assert.equal(pauses.next(5000), 5000);
  pauses.reset();
  assert.ok(pauses.next() <= 100);
});

test('an alarm ends current delays', async () => {
  const alarm = new Alarm();
  const asleep = alarm.sleep(1e9);
  alarm.ring();
  await asleep;
  const stop = new AbortController();
  const aborted = alarm.sleep(1e9, stop.signal);
  stop.abort();
  await aborted;
});

/** A server of which each answer is the next of a list. */
function staged(answers) {
  const asked = [];
  const fetch = async (url, { headers, signal }) => {
    asked.push({ path: `${url.pathname}${url.search}`, after: headers['Last-Event-ID'] });
    signal?.throwIfAborted();
    const answer = answers.shift();
    if (answer instanceof Error) throw answer;
    return answer;
  };
  return { asked, client: new Mailroom({ url: 'http://mail.test/base', token: 'x', fetch, WebSocket: null }) };
}

const stream = (...pieces) => new Response(new ReadableStream({
  start(controller) {
    for (const piece of pieces) controller.enqueue(encoder.encode(piece));
    controller.close();
  },
}), { headers: { 'Content-Type': 'text/event-stream' } });

const problem = (status, code, headers = {}) => new Response(JSON.stringify({ code, status, detail: code }), { status, headers });

test('a reader resumes at its cursor without repeats', async () => {
  const { asked, client } = staged([
    new TypeError('refused'),
    stream(sent(1), sent(2), 'event: delta\nid: 2:3\ndata: {"text":"abc"}\n\n', 'event: entry\nid: 3\nda'),
    problem(500, 'internal'),
    stream(sent(2), sent(3), sent(4, 'run.completed')),
    new Response(null, { status: 204 }),
  ]);
  const seen = [];
  for await (const { kind, cursor } of client.follow({ thread: 't', until: 'settled' })) seen.push(`${kind} ${cursor}`);
  assert.deepEqual(seen, ['entry 1', 'entry 2', 'delta 2:3', 'entry 3', 'entry 4', 'settled 4']);
  assert.deepEqual(asked.map(({ after }) => after), ['0', '0', '2:3', '2:3', '4']);
  assert.equal(asked[0].path, '/base/v1/threads/t/stream?until=settled');
});

test('a cursor beyond the log resumes at the existing entries', async () => {
  const gap = { after: 9, oldest: 1, last: 4 };
  const { client } = staged([stream(`event: gap\nid: 4\ndata: ${JSON.stringify(gap)}\n\n`, sent(5)), problem(404, 'not_found')]);
  const seen = [];
  await assert.rejects(async () => {
    for await (const { kind, cursor } of client.follow({ thread: 't', after: '9' })) seen.push(`${kind} ${cursor}`);
  }, { code: 'not_found' });
  assert.deepEqual(seen, ['gap 4', 'entry 5']);
});

test('a reader honors Retry-After', async () => {
  const { asked, client } = staged([problem(429, 'rate_limited', { 'Retry-After': '77' }), new Response(null, { status: 204 })]);
  let delay;
  const reader = client.follow({ thread: 't', until: 'settled', onState: (state, error) => {
    if (state !== 'waiting') return;
    delay = error.retryAfter;
    queueMicrotask(() => setImmediate(() => client.nudge())); // else this test would last that long
  } });
  for await (const _ of reader) assert.fail('there is nothing');
  assert.equal(delay, 77_000);
  assert.equal(asked.length, 2);
});

test('an unanswered call is repeated, and a refused one is not', async () => {
  const { asked, client } = staged([new TypeError('refused'), problem(503, 'unavailable'), new Response('{"id":"r"}')]);
  assert.deepEqual(await client.run('r'), { id: 'r' });
  assert.equal(asked.length, 3);
  const refused = staged([problem(403, 'forbidden')]);
  await assert.rejects(refused.client.run('r'), { code: 'forbidden' });
  const once = staged([new TypeError('refused')]);
  await assert.rejects(once.client.interrupt('t'), { code: 'unavailable' });
});

test('a response without a problem is classified by its status', async () => {
  for (const [status, code] of [[401, 'unauthenticated'], [404, 'incompatible'], [413, 'too_large'], [500, 'internal']]) {
    const { client } = staged([new Response('<html>', { status })]);
    await assert.rejects(client.run('r'), { code, status });
  }
});

// Fails a call of the stream of server-sent events.
const fetchNoStream = (url, given) => (String(url).includes('/v1/stream') ? Promise.reject(new Error('a stream over HTTP')) : fetch(url, given));

for (const [way, options] of [['a socket', { fetch: fetchNoStream }], ['server-sent events', { WebSocket: null }]]) {
  test(`the stream of all threads over ${way} resumes after a kill of the server, with each entry once`, (t) => resumes(t, options));
}

async function resumes(t, options) {
  assert.ok(globalThis.WebSocket, 'run node with --experimental-websocket');
  const server = await open(t, '[agents.echo]\nkind = "echo"\npace = "0s"\n');
  const client = new Mailroom({ ...server, tries: 30, ...options });
  const stop = new AbortController();
  const seen = new Map(); // thread → seqs
  const states = [];
  let live;
  const first = new Promise((resolve) => { live = resolve; });
  let settle;
  const all = new Promise((resolve) => { settle = resolve; });
  const reading = (async () => {
    const onState = (state) => { states.push(state); if (state === 'live') live(); };
    for await (const { kind, entry, delta } of client.followAll({ signal: stop.signal, onState })) {
      if (kind === 'delta') assert.match(delta.thread, /^[abcd]$/);
      if (kind !== 'entry') continue;
      seen.set(entry.thread, [...seen.get(entry.thread) ?? [], entry.seq]);
      if (entry.thread === 'd' && entry.kind === 'run.completed') settle();
    }
  })();
  await first;
  await client.send({ thread: 'a', text: 'one' });
  await client.send({ thread: 'b', text: 'two' });
  await server.kill();
  await server.start();
  await client.send({ thread: 'c', text: 'three' });
  await client.send({ thread: 'd', text: 'four' });
  await all;
  stop.abort();
  await reading;
  for (const [thread, seqs] of seen) {
    const log = (await client.entries(thread, { limit: 500 })).items.map(({ seq }) => seq);
    assert.deepEqual(seqs, log.slice(0, seqs.length), thread);
  }
  assert.deepEqual([...seen.keys()].sort(), ['a', 'b', 'c', 'd']);
  assert.ok(states.includes('waiting'), 'it said that it was cut off');
}
