// Tests the events of an inbox with the official SDK of the revision 2026-07-28, over standard input and output and over
// HTTP. The SDK has the revision but not the extension, so the test sends its methods as the SDK sends custom ones.

import assert from 'node:assert/strict';
import { fileURLToPath } from 'node:url';
import test from 'node:test';

import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';

import { open } from '../../../clients/js/test/server.js';

const binary = fileURLToPath(new URL('../../../bin/mailroom', import.meta.url));

const extension = 'io.modelcontextprotocol/events';
const name = 'inbox.waiting';

/** How long a call waits for what the test expects, in milliseconds. */
const patience = 300_000;

/** A schema that accepts everything: the test looks at the values itself. */
const any = { '~standard': { version: 1, vendor: 'test', validate: (value) => ({ value }) } };

const transports = {
  'standard input and output': (server) => new StdioClientTransport({ command: binary, args: ['mcp', '--silent', '--thread', 'mine', '--data', server.folder] }),
  HTTP: (server) => new StreamableHTTPClientTransport(new URL(`${server.url}/mcp?thread=mine`), { requestInit: { headers: { authorization: `Bearer ${server.token}` } } }),
};

/** Connects a client that keeps the notifications of streams, in order, until next takes them. */
async function connect(t, transport) {
  const client = new Client({ name: 'another-client', version: '1.0.0' }, {
    versionNegotiation: { mode: { pin: '2026-07-28' } }, capabilities: { extensions: { [extension]: {} } },
  });
  const kept = [];
  let wake = () => {};
  for (const what of ['active', 'event', 'heartbeat', 'error', 'terminated']) {
    client.setNotificationHandler(`notifications/events/${what}`, { params: any }, (params) => {
      if (what !== 'heartbeat') kept.push({ what, ...params });
      wake();
    });
  }
  await client.connect(transport, { timeout: patience });
  t.after(() => client.close());
  const next = async () => {
    while (!kept.length) await new Promise((resolve) => { wake = resolve; });
    return kept.shift();
  };
  const ask = (method, params) => client.request({ method, params }, any, { timeout: patience });
  const stream = (cursor) => {
    const ended = new AbortController();
    const done = client.request({ method: 'events/stream', params: { name, cursor } }, any, { timeout: patience, signal: ended.signal });
    return async () => { ended.abort(); await done.catch(() => {}); };
  };
  return { client, next, ask, stream };
}

for (const [way, transport] of Object.entries(transports)) {
  test(`events of an inbox over ${way}`, async (t) => {
    const server = await open(t);
    const { client, next, ask, stream } = await connect(t, transport(server));
    assert.deepEqual(client.getServerCapabilities().extensions, { [extension]: {} });
    const { events } = await ask('events/list', {});
    assert.deepEqual(events.map((e) => [e.name, e.delivery]), [[name, ['poll', 'push']]]);

    const now = await ask('events/poll', { name, cursor: null });
    assert.deepEqual(now.events, []);
    const close = stream(null);
    const active = await next();
    assert.equal(active.what, 'active');
    assert.equal(active.truncated, false);

    await server.command('send', '--thread', 'mine', '--detach', 'a secret');
    const event = await next();
    assert.equal(event.what, 'event');
    assert.equal(event.name, name);
    assert.equal(event.data.inbox, 'mine');
    assert.equal(event.data.waiting, 1);
    assert.doesNotMatch(JSON.stringify(event), /secret/);

    // The message stays, and is read by a tool call of the same client.
    const read = await client.callTool({ name: 'wait_for_message', arguments: { timeout_secs: 60 } });
    assert.equal(read.structuredContent.activity_id, event.eventId);
    assert.equal(read.structuredContent.text, 'a secret');

    // An old cursor brings it again; the one after it does not.
    await close();
    const again = await ask('events/poll', { name, cursor: now.cursor });
    assert.deepEqual(again.events.map((e) => e.eventId), [event.eventId]);
    assert.deepEqual((await ask('events/poll', { name, cursor: event.cursor })).events, []);
    const closeAgain = stream(active.cursor);
    assert.equal((await next()).what, 'active');
    assert.equal((await next()).eventId, event.eventId);

    await assert.rejects(ask('events/poll', { name: 'other' }), (e) => e.code === -32023 && e.data.kind === 'event');
    await assert.rejects(ask('events/subscribe', { name }), /unsupported|method not found/);
    await closeAgain();
  });
}
