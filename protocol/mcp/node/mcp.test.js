// Tests the tools of a real server with the official SDK for JavaScript, over standard input and output
// and over HTTP.

import assert from 'node:assert/strict';
import { fileURLToPath } from 'node:url';
import test from 'node:test';

import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';

import { open } from '../../../clients/js/test/server.js';

const binary = fileURLToPath(new URL('../../../bin/mailroom', import.meta.url));

/** How long a call waits for what the test expects, in seconds: as long as the server permits. */
const patience = 300;

const transports = {
  'standard input and output': (server) => new StdioClientTransport({ command: binary, args: ['mcp', '--thread', 'mine', '--data', server.folder] }),
  HTTP: (server) => overHTTP(server, server.token),
};

function overHTTP(server, token) {
  return new StreamableHTTPClientTransport(new URL(`${server.url}/mcp?thread=mine`), { requestInit: { headers: { authorization: `Bearer ${token}` } } });
}

/** Connects, and returns a function that calls a tool. With SHOW=1 each call is in the test's output. */
async function connect(t, transport) {
  const client = new Client({ name: 'another-client', version: '1.0.0' });
  await client.connect(transport, { timeout: 2000 * patience });
  t.after(() => client.close());
  const show = (text) => process.env.SHOW && t.diagnostic(text);
  const call = async (name, args = {}) => {
    const result = await client.callTool({ name, arguments: args }, undefined, { timeout: 2000 * patience });
    const text = result.content[0].text;
    show(`${name} ${JSON.stringify(args)} → ${result.isError ? 'refused: ' : ''}${text}`);
    if (result.isError) return { refused: text };
    assert.deepEqual(result.structuredContent, JSON.parse(text));
    return result.structuredContent;
  };
  return { client, call };
}

for (const [name, transport] of Object.entries(transports)) {
  test(`an inbox over ${name}`, async (t) => {
    const server = await open(t);
    const { client, call } = await connect(t, transport(server));
    const { tools } = await client.listTools();
    assert.deepEqual(tools.map((tool) => tool.name).sort(), [
      'cancel_run', 'cancel_schedule', 'decide', 'delegate_task', 'get_run', 'inbox_peek', 'inbox_pop', 'list_schedules',
      'list_tickets',
      'schedule_message', 'send_message_to_user', 'submit_message', 'wait_for_message',
    ]);

    assert.deepEqual(await call('wait_for_message', { timeout_secs: 0.2 }), { timeout: true });
    await server.command('send', '--thread', 'mine', '--detach', 'what is the weather?');
    await server.command('send', '--thread', 'mine', '--detach', 'and tomorrow?');

    const first = await call('wait_for_message', { timeout_secs: patience });
    assert.equal(first.kind, 'canvas_user');
    assert.equal(first.text, 'what is the weather?');
    assert.equal(first.arrival_workspace_id, 'mine');
    const peeked = await call('inbox_peek', { limit: 10 });
    assert.deepEqual(peeked.items.map((row) => row.text), ['what is the weather?', 'and tomorrow?']);

    const { delegation_id: delegation } = await call('delegate_task', { workspace_id: 'echo', task: 'sunny' });
    assert.equal((await call('send_message_to_user', { message: 'I am asking' })).status, 'sent');
    await server.kill();
    await server.start();
    assert.equal((await call('wait_for_message', { timeout_secs: patience })).activity_id, first.activity_id);
    assert.deepEqual(await call('inbox_pop', { activity_id: first.activity_id }), { removed: true });
    assert.equal((await call('inbox_pop', { activity_id: first.activity_id })).removed, false);

    const second = await call('wait_for_message', { timeout_secs: patience });
    assert.equal(second.text, 'and tomorrow?');
    assert.deepEqual(await call('inbox_pop', { activity_id: second.activity_id }), { removed: true });
    const result = await call('wait_for_message', { timeout_secs: patience });
    assert.equal(result.kind, 'delegation_result');
    assert.equal(result.text, 'sunny');
    assert.equal(result.delegation_id, delegation);
    assert.equal((await call('get_run', { run: delegation })).status, 'completed');
    assert.equal((await call('list_tickets')).items[0].run, result.activity_id);
    assert.deepEqual(await call('inbox_pop', { activity_id: result.activity_id }), { removed: true });

    assert.match((await call('wait_for_message', { timeout_secs: 9999 })).refused, /^invalid: timeout_secs must be between 0 and 300/);
    assert.match((await call('delegate_task', { workspace_id: 'missing', task: 'x' })).refused, /^not_found: no thread and no agent is named "missing"$/);
    const output = await server.command('threads', 'show', 'mine');
    assert.equal(output.split('I am asking').length - 1, 1, output);
  });
}

test('an aborted call ends its wait', async (t) => {
  const server = await open(t);
  const { client, call } = await connect(t, transports['standard input and output'](server));
  await call('inbox_peek');
  const gaveUp = AbortSignal.timeout(300);
  await assert.rejects(client.callTool({ name: 'wait_for_message', arguments: { timeout_secs: 300 } }, undefined, { signal: gaveUp }));
  assert.equal((await call('inbox_peek')).total, 0);
});

test('the tools require a token', async (t) => {
  const server = await open(t);
  for (const token of ['', 'wrong']) {
    await assert.rejects(new Client({ name: 'x', version: '1' }).connect(overHTTP(server, token)), /401|Unauthorized|token/);
  }
});
