import assert from 'node:assert/strict';
import { describe, test } from 'node:test';

import { Mailroom, MailroomError, Transcript } from '../mailroom.js';
import { open } from './server.js';

const slow = '[agents.echo]\nkind = "echo"\npace = "25ms"\n';
const swift = '[agents.echo]\nkind = "echo"\npace = "0s"\n[agents.tour]\nkind = "tour"\npace = "0s"\n';

const words = (n) => Array.from({ length: n }, (_, i) => `word${i}`).join(' ');

/** Returns all events of follow. seen is called for each of them. */
async function gather(follow, seen = () => {}) {
  const all = [];
  for await (const event of follow) {
    all.push(event);
    await seen(event, all);
  }
  return all;
}

const entriesOf = (events) => events.filter(({ kind }) => kind === 'entry').map(({ entry }) => entry);
const logOf = async (client, thread) => (await client.entries(thread, { limit: 500 })).items;
const fold = (events) => {
  const transcript = new Transcript();
  for (const event of events) transcript.take(event);
  return transcript;
};

function promise() {
  let settle;
  return [new Promise((resolve) => { settle = resolve; }), settle];
}

const transports = { 'server-sent events': null, WebSocket: globalThis.WebSocket };

for (const [name, WebSocket] of Object.entries(transports)) {
  describe(`over ${name}`, () => {
    test('a message gets a reply, and its reader gets exactly the log', async (t) => {
      assert.ok(name !== 'WebSocket' || WebSocket, 'run node with --experimental-websocket');
      const server = await open(t, slow);
      const client = new Mailroom({ ...server, WebSocket });
      const { thread, run: before } = await client.send(words(4000), { agent: 'echo' });
      const { run } = await client.send(words(12), { thread });
      const events = await gather(client.follow({ thread, until: 'settled' }), (_, { length }) => length === 1 && client.cancel(before));
      assert.deepEqual(entriesOf(events), await logOf(client, thread));
      assert.deepEqual(events.at(-1), { kind: 'settled', cursor: events.at(-2).cursor, run, status: 'completed' });
      assert.ok(events.some(({ kind, delta }) => kind === 'delta' && delta.run === run), 'the answer was streamed');
      assert.equal(fold(events).items.at(-1).text, words(12));
    });

    test('resuming at any cursor gives the following events', async (t) => {
      const server = await open(t, swift);
      const client = new Mailroom({ ...server, WebSocket });
      const { run } = await client.send('one two', { thread: 't' });
      const all = entriesOf(await gather(client.follow({ run })));
      for (const { seq } of all.slice(0, -1)) {
        assert.deepEqual(entriesOf(await gather(client.follow({ run, after: seq }))), all.slice(seq));
      }
      assert.deepEqual(await gather(client.follow({ thread: 't', until: 'settled', after: all.length })), [], 'nothing is left');
      assert.deepEqual(await gather(client.follow({ run, after: all.length })), [], 'nothing is left');
    });

    test('readers continue after a kill and restart of the server', async (t) => {
      const server = await open(t, slow);
      const client = new Mailroom({ ...server, WebSocket });
      const { thread } = await client.send(words(40));
      const states = [];
      const [begun, begin] = promise();
      const onState = (state) => states.push(state);
      const readers = [
        gather(client.follow({ thread, until: 'settled', onState }), ({ kind }, { length }) => kind === 'delta' && length > 6 && begin()),
        gather(client.follow({ thread, until: 'settled' })),
      ];
      await begun;
      await server.kill();
      await server.start();
      const log = await Promise.all(readers).then(async ([one, two]) => {
        const log = await logOf(client, thread);
        assert.deepEqual(entriesOf(one), log);
        assert.deepEqual(entriesOf(two), log);
        assert.equal(fold(one).items.at(-1).text, words(40));
        return log;
      });
      assert.ok(log.some(({ kind }) => kind === 'run.rescheduled'), 'it was killed in the middle');
      assert.deepEqual(states.slice(0, 3), ['connecting', 'live', 'waiting']);
    });

    test('a cancelled run stops and keeps its text', async (t) => {
      const server = await open(t, slow);
      const client = new Mailroom({ ...server, WebSocket });
      const { run } = await client.send(words(400), { thread: 't' });
      const events = await gather(client.follow({ thread: 't', until: 'settled' }), async ({ kind }, { length }) => {
        if (kind === 'delta' && length === 8) assert.equal((await client.cancel(run)).stopping, true);
      });
      assert.equal(events.at(-1).status, 'cancelled');
      const partial = fold(events).items.find(({ partial }) => partial);
      assert.ok(partial.text.startsWith('word0 word1') && words(400).startsWith(partial.text), partial.text);
    });

    test('a run continues after a decision with the shown digest', async (t) => {
      const server = await open(t, swift);
      const client = new Mailroom({ ...server, WebSocket });
      const { run } = await client.send('show me', { agent: 'tour', thread: 't' });
      const asked = await gather(client.follow({ run, until: 'waiting' }));
      const { ticket } = fold(asked).items.find(({ kind }) => kind === 'ticket');
      await assert.rejects(client.decide(ticket.id, { decision: 'approve' }), { code: 'invalid' });
      const decided = await client.decide(ticket.id, { decision: 'approve', digest: ticket.digest });
      assert.equal(decided.state, 'decided');
      assert.equal((await client.decide(ticket.id, { decision: 'approve', digest: ticket.digest })).state, 'decided', 'the same again');
      const rest = await gather(client.follow({ run, after: asked.at(-1).cursor }));
      assert.equal(rest.at(-1).status, 'completed');
      assert.deepEqual([...entriesOf(asked), ...entriesOf(rest)], (await client.entries('t', { run, limit: 500 })).items);
    });

    test('refusals of the server are thrown at once', async (t) => {
      const server = await open(t, swift);
      const client = new Mailroom({ ...server, WebSocket });
      const { run } = await client.send('one', { thread: 'mine' });
      await client.send('two', { thread: 'other' });
      for (const [code, what, query] of [
        ['not_found', client, { thread: 'nowhere' }],
        ['not_found', client, { run: 'none' }],
        ['not_found', client, { thread: 'other', run }],
        ['unauthenticated', new Mailroom({ ...server, token: 'wrong', WebSocket }), { thread: 'mine' }],
      ]) {
        await assert.rejects(gather(what.follow(query)), (error) => error instanceof MailroomError && error.code === code, code);
      }
      await assert.rejects(gather(client.follow({ thread: 'mine', after: 'x' })), { code: 'invalid' });
      await assert.rejects(client.send('x', { agent: 'nosuch' }), { code: 'unserved', status: 422 });
      assert.throws(() => client.follow({}), { code: 'invalid' });
    });

    test('a reader ends with its abort signal', async (t) => {
      const server = await open(t, swift);
      const client = new Mailroom({ ...server, WebSocket });
      await client.send('one', { thread: 't' });
      const stop = new AbortController();
      const events = await gather(client.follow({ thread: 't', signal: stop.signal }), ({ kind }) => kind === 'settled' && stop.abort());
      assert.equal(events.at(-1).kind, 'settled');
      assert.deepEqual(await gather(client.follow({ thread: 't', signal: stop.signal })), []);
    });
  });
}

test('a submit whose response was lost is repeated and executed once', async (t) => {
  const server = await open(t, swift);
  let lost = 0;
  const client = new Mailroom({
    ...server,
    fetch: async (...given) => {
      const response = await fetch(...given);
      if (lost++ === 0) throw new TypeError('the connection broke off');
      return response;
    },
  });
  const out = await client.send('once', { thread: 't' });
  assert.equal(out.disposition, 'duplicate');
  const { items } = await client.messages('t', { all: true });
  assert.equal(items.filter(({ role }) => role === 'user').length, 1);
});

test('a refusal names the invalid field', async (t) => {
  const server = await open(t, swift);
  const client = new Mailroom(server);
  await assert.rejects(client.send('x', { priority: 999 }), ({ code, status, fields }) => {
    assert.deepEqual([code, status, fields[0].location], ['invalid', 422, 'body.priority']);
    return true;
  });
  assert.throws(() => client.run('..'), { code: 'invalid' });
});

test('threads, agents and an interrupt', async (t) => {
  const server = await open(t, slow);
  const client = new Mailroom(server);
  const { run } = await client.send(words(200), { thread: 'a/b'.replace('/', '.') });
  const second = await client.send('later', { thread: 'a.b' });
  assert.ok((await client.agents()).some(({ name, available }) => name === 'echo' && available));
  await client.patchThread('a.b', { metadata: { title: 'Numbers' } });
  const { items: [thread] } = await client.threads({ limit: 1 });
  assert.deepEqual([thread.id, thread.metadata], ['a.b', { title: 'Numbers' }]);
  assert.deepEqual(await client.interrupt('a.b'), { superseded: [second.run], stopping: run });
  const events = await gather(client.follow({ run }));
  assert.equal(events.at(-1).status, 'cancelled');
  await client.retry(second.run);
  assert.equal((await gather(client.follow({ run: second.run }))).at(-1).status, 'completed');
});
