import assert from 'node:assert/strict';
import { test } from 'node:test';

import { Failure } from '../worker/index.js';
import { serve } from './working.js';

const large = new Uint8Array(1_000_000).map((_, i) => i % 251); // some pieces

test('later attempts and runs find the blobs that steps wrote', async (t) => {
  const bench = await serve(t, async (s) => {
    const b = s.blobs;
    if (s.text === 'learn' && s.run.attempt === 1) {
      await s.write('I ');
      await b.put('notes/ü?&/1', large);
      await b.put('notes/2', new Uint8Array([1]));
      await b.put('notes/2', new ArrayBuffer(0));
      await b.put('gone', new Uint8Array([1]));
      await b.delete('gone');
      await b.delete('never');
      await s.write('see');
      await s.step({ checkpoint: 1, blobs: { 'notes/3': new TextEncoder().encode('three'), gone: null } });
      throw new Failure('once more');
    }
    assert.deepEqual(await b.get('notes/ü?&/1'), large);
    const [two, three] = [await b.get('notes/2'), await b.get('notes/3')];
    assert.deepEqual([two.length, three.length, await b.get('gone')], [0, 5, null]);
    assert.deepEqual((await b.list()).map(({ name }) => name), ['notes/2', 'notes/3', 'notes/ü?&/1']);
    assert.deepEqual((await b.list({ prefix: 'notes/', after: 'notes/3' })).map(({ size }) => size), [large.length]);
    return `found at ${s.checkpoint}`;
  });
  const first = await bench.send('learn');
  const done = await bench.end(first);
  assert.deepEqual([done.status, done.reply, done.attempt], ['completed', 'found at 1', 2]);
  const texts = (await bench.entries(first, 'message')).map(({ body }) => body.text);
  assert.deepEqual(texts, ['learn', 'I see', 'found at 1']);
  const next = await bench.send('ask', { thread: done.thread });
  assert.equal((await bench.end(next)).reply, 'found at null');
});

test('what is no blob is refused in one sentence', async (t) => {
  const bench = await serve(t, async (s) => {
    const one = new Uint8Array(1);
    for (const [name, content, code] of [
      ['', one, 'invalid'], ['a\0', one, 'invalid'], ['x'.repeat(257), one, 'invalid'], ['a', 'text', 'invalid'],
      ['a', null, 'invalid'], ['a', new Uint8Array(2 ** 24 + 1), 'too_large'],
    ]) {
      await assert.rejects(s.blobs.put(name, content), { code });
    }
    await s.blobs.put('largest', new Uint8Array(2 ** 24));
    return String((await s.blobs.get('largest')).length);
  });
  assert.equal((await bench.end(await bench.send('x'))).reply, '16777216');
});
