import assert from 'node:assert/strict';
import { test } from 'node:test';

import { Mailroom } from '../mailroom.js';

const sent = (sub, seq, kind = 'step') => ({ op: 'entry', sub, cursor: String(seq), entry: { thread: 't', seq, kind, run: 'r', attempt: 1, body: {} } });

/**
 * A fake server with a WebSocket. It calls each(socket, frame) for frames of the client, except auth and
 * ping, which it answers.
 */
function fakeServer(each, { opens = () => true, answers = async () => new Response('{}') } = {}) {
  const sockets = [];
  class Socket {
    readyState = 0;

    constructor() {
      sockets.push(this);
      queueMicrotask(() => {
        if (!opens()) return this.shut(1006);
        this.readyState = 1;
        this.onopen?.();
      });
    }

    send(text) {
      const frame = JSON.parse(text);
      if (frame.op === 'auth') this.say({ op: 'ack', id: frame.id, result: {} });
      else if (frame.op === 'ping') this.say({ op: 'pong', id: frame.id });
      else each(this, frame, sockets.length);
    }

    say(frame) { queueMicrotask(() => this.onmessage?.({ data: JSON.stringify(frame) })); }

    shut(code, reason = '') {
      this.readyState = 3;
      this.onclose?.({ code, reason });
    }

    close() { this.readyState = 3; }
  }
  return { sockets, client: new Mailroom({ url: 'http://mail.test', token: 'x', WebSocket: Socket, fetch: answers }) };
}

async function gather(follow, most) {
  const seen = [];
  for await (const { kind, cursor } of follow) {
    seen.push(`${kind} ${cursor}`);
    if (seen.length === most) break;
  }
  return seen;
}

test('all readers of a client share one socket, and each gets its own events', async () => {
  const asked = [];
  const { sockets, client } = fakeServer((socket, { op, id, thread }) => {
    asked.push(`${op} ${thread ?? ''}`);
    if (op !== 'subscribe') return;
    socket.say({ op: 'ack', id, sub: `sub ${thread}` });
    for (const seq of [1, 2]) socket.say(sent(`sub ${thread}`, thread === 'a' ? seq : seq + 10));
  });
  const [a, b] = await Promise.all([gather(client.follow({ thread: 'a' }), 2), gather(client.follow({ thread: 'b' }), 2)]);
  assert.deepEqual([a, b], [['entry 1', 'entry 2'], ['entry 11', 'entry 12']]);
  assert.equal(sockets.length, 1);
  assert.deepEqual(asked, ['subscribe a', 'subscribe b', 'unsubscribe ', 'unsubscribe ']);
});

test('a reader that was cut off as too slow resumes at once from its cursor', async () => {
  const after = [];
  const { client } = fakeServer((socket, frame, nth) => {
    if (frame.op !== 'subscribe') return;
    after.push(frame.after);
    socket.say({ op: 'ack', id: frame.id, sub: '1' });
    socket.say(sent('1', nth));
    if (nth < 3) queueMicrotask(() => queueMicrotask(() => socket.shut(4408, `1=${nth}`)));
  });
  const states = [];
  const reader = client.follow({ thread: 't', onState: (state) => states.push(state) });
  assert.deepEqual(await gather(reader, 3), ['entry 1', 'entry 2', 'entry 3']);
  assert.deepEqual(after, ['0', '1', '2']);
  assert.deepEqual(states, ['connecting', 'live', 'connecting', 'live', 'connecting', 'live'], 'it never waited');
});

test('a reader that is far behind unsubscribes and misses nothing', async () => {
  const last = 25_000;
  const asked = [];
  const { client } = fakeServer((socket, { op, id, sub, after }) => {
    asked.push(op === 'subscribe' ? `after ${after}` : `${op} ${sub}`);
    if (op !== 'subscribe') return;
    const own = `sub after ${after}`;
    socket.say({ op: 'ack', id, sub: own });
    for (let seq = Number(after) + 1; seq <= last; seq++) socket.say(sent(own, seq));
  });
  const seen = await gather(client.follow({ thread: 't' }), last);
  assert.deepEqual(seen, Array.from({ length: last }, (_, i) => `entry ${i + 1}`));
  assert.ok(asked.length > 2 && asked[1] === 'unsubscribe sub after 0', asked.join(', '));
});

test('an error of a subscription ends only its reader', async () => {
  const { client } = fakeServer((socket, { op, id, thread }) => {
    if (op !== 'subscribe') return;
    if (thread === 'foreign') return socket.say({ op: 'error', id, error: { code: 'not_found', detail: 'no thread' } });
    socket.say({ op: 'ack', id, sub: thread });
    if (thread === 'deleted') return socket.say({ op: 'error', sub: thread, error: { code: 'not_found', detail: 'no thread' } });
    setImmediate(() => socket.say(sent(thread, 1)));
  });
  const other = gather(client.follow({ thread: 'other' }), 1);
  await assert.rejects(gather(client.follow({ thread: 'foreign' })), { code: 'not_found' });
  await assert.rejects(gather(client.follow({ thread: 'deleted' })), { code: 'not_found' });
  assert.deepEqual(await other, ['entry 1']);
});

test('a revoked token ends all readers', async () => {
  const { client } = fakeServer((socket, { op, id, thread }) => {
    if (op !== 'subscribe') return;
    socket.say({ op: 'ack', id, sub: thread });
    if (thread === 'b') setImmediate(() => socket.shut(4401, 'the token was revoked'));
  });
  for (const { status, reason } of await Promise.allSettled(['a', 'b'].map((thread) => gather(client.follow({ thread }))))) {
    assert.deepEqual([status, reason.code], ['rejected', 'unauthenticated']);
  }
});

test('refused subscriptions are retried after Retry-After', async () => {
  let refused = false;
  const { client } = fakeServer((socket, { op, id }) => {
    if (op !== 'subscribe') return;
    if (!refused) {
      refused = true;
      return socket.say({ op: 'error', id, retry_after: 77, error: { code: 'rate_limited', detail: 'close some' } });
    }
    socket.say({ op: 'ack', id, sub: '1' });
    socket.say(sent('1', 1));
  });
  const pauses = [];
  const onState = (state, error) => {
    if (state !== 'waiting') return;
    pauses.push(error.retryAfter);
    setImmediate(() => client.nudge()); // else this test would last that long
  };
  assert.deepEqual(await gather(client.follow({ thread: 't', onState }), 1), ['entry 1']);
  assert.deepEqual(pauses, [77_000]);
});

test('without a socket, readers use HTTP streams', async () => {
  const paths = [];
  const { sockets, client } = fakeServer(() => {}, {
    opens: () => false,
    answers: async (url) => {
      paths.push(url.pathname);
      if (url.pathname === '/healthz') return new Response('{}');
      const { entry } = sent('', 1);
      return new Response(`event: entry\nid: 1\ndata: ${JSON.stringify(entry)}\n\n`, { headers: { 'Content-Type': 'text/event-stream' } });
    },
  });
  assert.deepEqual(await gather(client.follow({ thread: 't' }), 1), ['entry 1']);
  assert.equal(sockets.length, 2);
  assert.deepEqual(paths, ['/healthz', '/healthz', '/v1/threads/t/stream']);
});

test('readers wait for an unreachable server', async () => {
  let down = 3;
  const { client } = fakeServer((socket, { op, id }) => {
    if (op !== 'subscribe') return;
    socket.say({ op: 'ack', id, sub: '1' });
    socket.say(sent('1', 1));
  }, {
    opens: () => --down < 0,
    answers: async () => { throw new TypeError('refused'); },
  });
  const states = [];
  assert.deepEqual(await gather(client.follow({ thread: 't', onState: (state) => states.push(state) }), 1), ['entry 1']);
  assert.deepEqual(states, ['connecting', 'waiting', 'connecting', 'waiting', 'connecting', 'waiting', 'connecting', 'live']);
});
