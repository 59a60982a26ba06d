import assert from 'node:assert/strict';
import { test } from 'node:test';

import { work } from '../worker/index.js';
import { serve } from './working.js';

const MiB = 1024 * 1024;

test('a wrong token, a token without the scope and a wrong call are one sentence each', async (t) => {
  const bench = await serve(t);
  const { token } = await bench.client.createToken({ name: 'reader', scopes: ['read'] });
  const refused = (token) => {
    const { done } = work('js', () => {}, { url: bench.server.url, log: bench.log, token });
    return assert.rejects(done, /scope work/);
  };
  await refused('mr_wrong');
  await refused(token);
  await refused('');
  const { done } = bench.start({ echo: () => 'mine' });
  await assert.rejects(done, /agent "echo" is run by this server/);
  assert.throws(() => work('js'), /has no handler/);
  assert.throws(() => work({}), /no agent/);
  assert.throws(() => work('js', () => {}, { slots: 0 }), /slots/);
  assert.equal(bench.lines.filter(({ level }) => level === 'error').length, 0);
});

test('what cannot be stored is refused before it is sent, and the run goes on', async (t) => {
  const cyclic = {};
  cyclic.self = cyclic;
  const long = 'x'.repeat(300_000);
  const bench = await serve(t, async (s) => {
    const code = (call) => call.then(() => 'ok', (error) => error.code ?? error.name);
    return (await Promise.all([
      s.write(7), s.write('a\0b'), s.step({ checkpoint: long }), s.step({ state: cyclic }),
      s.step({ state: 1n }), s.step({ sends: [{ agent: 'js' }] }), s.effect('', () => 1), s.effect('no function'),
      s.step({ entries: [{ kind: 'x.big', body: { long } }] }), s.approval('big', { arguments: long }),
      s.memo('big', () => long.repeat(10)), s.tool.finished(undefined), s.sleep('for how long'),
      s.step({ entries: [{ kind: 'message', body: {} }] }),
    ].map(code))).join(' ');
  });
  const done = await bench.end(await bench.send('go'));
  assert.deepEqual(done.reply.split(' '), [
    'invalid', 'invalid', 'too_large', 'invalid', 'invalid', 'invalid', 'invalid', 'invalid',
    'too_large', 'too_large', 'Failure', 'invalid', 'invalid', 'invalid',
  ]);
  assert.equal(done.attempt, 1);
});

test('a refused step keeps the text that was written', async (t) => {
  const bench = await serve(t, async (s) => {
    await s.write('kept ');
    await assert.rejects(s.step({ entries: [{ kind: 'message', body: {} }] }), { code: 'invalid' });
    return 'whole';
  });
  assert.equal((await bench.end(await bench.send('go'))).reply, 'kept whole');
});

test('a handler that returns what is no text, and an effect with a value that JSON cannot keep', async (t) => {
  let called = 0;
  const bench = await serve(t, {
    js: () => ({ reply: 'no' }),
    big: async (s) => {
      const value = await s.effect('big', () => { called++; return 'x'.repeat(2 * MiB); });
      return `${value?.length}`;
    },
    cyclic: (s) => s.effect('pay', () => 1n),
    surrogate: async (s) => {
      const value = await s.effect('say', () => 'half \ud83d');
      await s.step({ state: { value } });
      return value;
    },
  });
  const returned = await bench.end(await bench.send('go'));
  assert.deepEqual([returned.status, returned.error.class], ['failed', 'permanent']);
  assert.match(returned.error.message, /type object; return a text/);

  const big = await bench.end(await bench.send('go', { agent: 'big' }));
  assert.deepEqual([big.status, big.error.class], ['failed', 'permanent']);
  assert.match(big.error.message, /"big" was called, but its value could not be kept: .* 1048576 are allowed/);
  await bench.client.retry(big.id);
  const again = await bench.end(big.id);
  assert.deepEqual([again.status, again.error.class, called], ['failed', 'permanent', 1]);
  assert.match(again.error.message, /"big" was called, but its value could not be kept; return a reference/);

  const cyclic = await bench.end(await bench.send('go', { agent: 'cyclic' }));
  assert.equal(cyclic.error.class, 'permanent');
  assert.match(cyclic.error.message, /"pay" was called, but its value could not be kept: .*cannot be encoded as JSON/);
  assert.equal((await bench.entries(cyclic.id, 'effect.settled'))[0].body.cut, true, 'it is known that it was called');

  assert.equal((await bench.end(await bench.send('go', { agent: 'surrogate' }))).reply, 'half \ufffd');
});

test('an input of megabytes arrives, and a reply beyond the limit is cut between characters', async (t) => {
  const bench = await serve(t, async (s) => {
    if (s.text.length > 5) return String(s.text.length);
    for (let i = 0; i < 400; i++) await s.write('👋'.repeat(1000));
    return 'the end';
  });
  const large = await bench.end(await bench.send('x'.repeat(MiB)));
  assert.equal(large.reply, String(MiB));
  const long = await bench.end(await bench.send('wave'));
  assert.equal(long.reply, '👋'.repeat(MiB / 4));
  const message = (await bench.entries(long.id, 'message')).at(-1).body;
  assert.equal(message.truncated, true);
});

test('a log that throws and a fetch of the caller end nothing', async (t) => {
  let requests = 0;
  const thrown = () => { throw new Error('no log'); };
  const bench = await serve(t, (s) => `hello ${s.text}`, {
    log: { debug: thrown, info: thrown, warn: thrown, error: thrown },
    fetch: (...given) => { requests++; return fetch(...given); },
  });
  assert.equal((await bench.end(await bench.send('you'))).reply, 'hello you');
  assert.ok(requests >= 3);
});

test('an attempt that the server cannot settle gives its run back', async (t) => {
  const broken = async (url, options) => {
    if (String(url).endsWith('%3A1/settle')) return new Response('{}', { status: 500 });
    return fetch(url, options);
  };
  const bench = await serve(t, (s) => `attempt ${s.run.attempt}`, { fetch: broken });
  const done = await bench.end(await bench.send('go'));
  assert.deepEqual([done.reply, done.failures], ['attempt 2', 0]);
  assert.ok(bench.lines.some(({ message }) => message.includes('given back')));
});

test('a server that is too old for the package is refused in one sentence', async (t) => {
  const bench = await serve(t);
  const old = async (url, options) => {
    const { contract, version, ...answer } = await (await fetch(url, options)).json();
    assert.ok(contract >= 1 && version);
    return Response.json(answer);
  };
  const worker = bench.start(() => {}, { fetch: old });
  const sentence = /^the server at http\S+ is older than this package; update the server, or install an older package$/;
  await assert.rejects(worker.done, { code: 'invalid', message: sentence });
});

test('a server that is newer than the package serves it, whatever it adds to its answers', async (t) => {
  const bench = await serve(t);
  const added = { future: [{ a: 1 }] };
  const newer = async (url, options) => {
    const answer = await (await fetch(url, options)).json();
    const claims = answer.claims?.map((claim) => ({ ...claim, ...added }));
    return Response.json({ ...answer, ...(claims && { claims, contract: 99 }), ...added });
  };
  const worker = bench.start({ newer: (s) => `read ${s.text}` }, { fetch: newer });
  await worker.ready;
  assert.equal((await bench.end(await bench.send('this', { agent: 'newer' }))).reply, 'read this');
  await worker.stop();
});
