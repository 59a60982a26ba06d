// What a write ends, and what nothing may follow.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { Unknown } from '../worker/index.js';
import { gate, serve } from './working.js';

const texts = async (bench, run) => (await bench.entries(run, 'message'))
  .filter(({ body }) => body.role === 'assistant').map(({ body }) => [body.text, body.visibility]);

test('each step that records progress ends the message being written, and no other write does', async (t) => {
  const bench = await serve(t, {
    js: async (s) => {
      const ends = [
        () => s.step(), () => s.step({ name: 'look' }), () => s.step({ checkpoint: 1 }), () => s.step({ aside: true }),
        () => s.tool.started('c1', 'look'), () => s.tool.finished('c1'), () => s.memo('model', () => 1),
        () => s.effect('pay', () => 1), () => s.send('note', { agent: 'other', text: 'x' }),
      ];
      for (const [i, end] of ends.entries()) {
        await s.write(`${i}`);
        await end();
      }
      for (const goesOn of [
        () => s.effect('pay', () => 2), // recorded before
        () => s.effect('fails', () => { throw new Error('no'); }).catch(() => {}),
        () => s.steered(), () => s.log(), () => s.reasoning('hm'),
        () => s.step({ state: 'x'.repeat(100_000) }).catch(() => {}), // refused
      ]) {
        await s.write('.');
        await goesOn();
      }
      return '!';
    },
    other: () => {},
  });
  const done = await bench.end(await bench.send('go'));
  assert.equal(done.status, 'completed', done.error?.message);
  const aside = [3, 4, 5];
  const ended = Array.from({ length: 9 }, (_, i) => [`${i}`, aside.includes(i) ? 'internal' : 'all']);
  assert.deepEqual(await texts(bench, done.id), [...ended, ['......!', 'all']]);
});

test('what is shown beside a message goes on where it was after a step without one', async (t) => {
  const [live, shown] = [gate(), gate()];
  const bench = await serve(t, async (s) => {
    await live.opened;
    for (const text of ['one ', 'two ', 'three ']) {
      await s.reasoning(text);
      await s.step({ name: text }); // there is no text: the message has not begun
    }
    await shown.opened;
    return 'text';
  });
  const run = await bench.send('go');
  const onState = (state) => state === 'live' && live.open();
  let text = '';
  for await (const { kind, delta } of bench.client.follow({ run, onState })) {
    if (kind !== 'delta' || delta.channel !== 'thinking') continue;
    assert.equal(delta.offset, Buffer.byteLength(text));
    text += delta.text;
    if (text === 'one two three ') shown.open();
  }
  assert.equal(text, 'one two three ');
});

test('what is shown while a flush is under way and a step begins is shown after the step', async (t) => {
  const [live, asked, go, shown] = [gate(), gate(), gate(), gate()];
  const held = async (url, options) => {
    if (String(url).endsWith('/deltas')) {
      asked.open();
      await go.opened;
    }
    return fetch(url, options);
  };
  const bench = await serve(t, async (s) => {
    await live.opened;
    s.reasoning('one ');
    await asked.opened;
    s.reasoning('two');
    const step = s.step({ name: 'look' });
    go.open();
    await step;
    await shown.opened;
    return 'text';
  }, { fetch: held });
  const run = await bench.send('go');
  const onState = (state) => state === 'live' && live.open();
  let text = '';
  for await (const { kind, delta } of bench.client.follow({ run, onState })) {
    if (kind === 'delta' && delta.channel === 'thinking') text += delta.text;
    if (text === 'one two') shown.open();
  }
  assert.equal(text, 'one two');
});

test('the text of a refused step stays in front of what was written since, in steps under way too', async (t) => {
  const bench = await serve(t, async (s) => {
    s.write('a ');
    const refused = s.step({ entries: [{ kind: 'message', body: {} }] });
    s.write('b ');
    const taken = s.step({ name: 'both' });
    s.write('c');
    await assert.rejects(refused, { code: 'invalid' });
    await taken;
  });
  const done = await bench.end(await bench.send('go'));
  assert.deepEqual(await texts(bench, done.id), [['a b ', 'all'], ['c', 'all']], done.error?.message);
});

test('a step whose outcome stays unknown ends the attempt, and nothing else is written under its number', async (t) => {
  const bodies = [];
  const broken = async (url, options) => {
    const first = String(url).includes('%3A1/');
    if (first && /entries|settle/.test(url)) bodies.push(options.body);
    if (!first || !/"name":"lost"/.test(options.body)) return fetch(url, options);
    const written = await fetch(url, options); // it is written, and the answer does not say so
    assert.equal(written.status, 200);
    return new Response('{"code":"internal","detail":"broken"}', { status: 500 });
  };
  const errors = [];
  const bench = await serve(t, async (s) => {
    if (s.run.attempt > 1) return `after ${s.run.steps} steps`;
    for (const name of ['lost', 'next']) await s.step({ name }).catch((error) => errors.push(error));
    await s.effect('pay', () => 1).catch((error) => errors.push(error));
    return 'as if nothing had happened';
  }, { fetch: broken });
  const done = await bench.end(await bench.send('go'));
  assert.deepEqual([done.status, done.reply, done.attempt], ['completed', 'after 1 steps', 2], done.error?.message);
  assert.equal(new Set(bodies).size, 1, bodies.join('\n'));
  assert.deepEqual(errors.map(({ name }) => name), ['LeaseLost', 'LeaseLost', 'LeaseLost']);
  assert.match(errors[0].message, /did not say whether it has step 1 \(broken\); another attempt goes on/);
  assert.deepEqual((await bench.entries(done.id, 'step')).map(({ body }) => body.name), ['lost']);
});

test('an effect within itself and a memo of an unfinished effect are refused, and nothing waits for ever', async (t) => {
  const refusals = [];
  const bench = await serve(t, async (s) => {
    const refused = (call) => call.catch(({ code, message }) => { refusals.push([code, message]); return 'refused'; });
    const value = await s.effect('a', () => s.effect('b', async () => {
      await new Promise((resolve) => { setTimeout(resolve); });
      return [await refused(s.effect('a', () => 1)), await refused(s.memo('b', () => 2)), await s.memo('c', () => 3)];
    }));
    await s.effect('failed', () => { throw new Error('no'); }).catch(() => {});
    await refused(s.memo('failed', () => 1));
    const slow = s.effect('slow', () => { throw new Unknown(); }, { idempotent: true }).catch(() => {});
    await refused(s.memo('slow', () => 1));
    await slow;
    return JSON.stringify(value);
  });
  const done = await bench.end(await bench.send('go'));
  assert.equal(done.reply, '["refused","refused",3]', done.error?.message);
  const own = /is called within its own function, and would wait for itself; give it another name/;
  const unfinished = /is an effect without a value yet; give the memo another name/;
  for (const [i, expected] of [own, own, unfinished, unfinished].entries()) {
    assert.equal(refusals[i][0], 'conflict');
    assert.match(refusals[i][1], expected);
  }
});

test('a worker handles one run on its last attempt at a time, and claims the next one when it has ended', async (t) => {
  const asked = [];
  const made = (n, more) => ({
    claim: `r${n}:1`, tickets: [], steers: [], messages: [], ...more,
    run: { id: `r${n}`, thread: `t${n}`, agent: 'js', attempt: 1, steps: 0, crashes: 0, max_crashes: 3, ...more.run },
  });
  const claims = [made(1, { run: { crashes: 2 } }), made(2, { lost: 19 }), made(3, { run: { crashes: 1 } })];
  const [first, second, third] = [gate(), gate(), gate()];
  const gates = { r1: first, r2: second, r3: third };
  const waiting = { 2: gate(), 4: gate(), 6: gate() };
  const answer = async (url, { body, signal }) => {
    const { pathname } = new URL(url);
    const { round, alone, max, agents } = body ? JSON.parse(body) : {};
    if (pathname.endsWith('/settle') || !round || agents) {
      return Response.json({ worker: 'w', lease_ms: 60_000, contract: 1, claims: [] });
    }
    asked.push(`${round} ${alone} ${max}`);
    const claim = { 1: claims[0], 3: claims[1], 5: claims[2] }[round];
    if (claim) return Response.json({ claims: [claim] });
    waiting[round]?.open();
    if (alone && round !== 6) return Response.json({ claims: [] });
    return new Promise((_, reject) => { signal.addEventListener('abort', () => reject(signal.reason), { once: true }); });
  };
  const bench = await serve(t);
  const worker = bench.start((s) => gates[s.run.id].opened, { fetch: answer, slots: 2 });
  await waiting[2].opened;
  first.open();
  await waiting[4].opened;
  second.open();
  await waiting[6].opened;
  third.open();
  await worker.stop();
  const expected = ['1 true 2', '2 false 1', '2 true 2', '3 true 2', '4 false 1', '4 true 2', '5 true 2', '6 true 1'];
  assert.deepEqual(asked.slice(0, 8), expected);
});

test('text that the server refuses fails the attempt with the reason, also if the handler goes on', async (t) => {
  let asked = 0;
  const refuses = async (url, options) => {
    if (!String(url).endsWith('/deltas')) return fetch(url, options);
    asked++;
    return new Response('{"status":422,"code":"invalid","detail":"no such text"}', { status: 422, headers: { 'Content-Type': 'application/problem+json' } });
  };
  const ended = gate();
  const bench = await serve(t, async (s) => {
    s.signal.addEventListener('abort', ended.open);
    s.write('text that waits');
    await ended.opened;
    const before = asked;
    for (let i = 0; i < 3; i++) await s.write('x'.repeat(100_000)).catch(() => {});
    assert.equal(asked, before, 'it is sent again');
    return 'more';
  }, { fetch: refuses });
  const done = await bench.end(await bench.send('go', { max_attempts: 1 }));
  assert.deepEqual([done.status, done.error.class, done.error.message], ['failed', 'permanent', 'no such text']);
});
