import assert from 'node:assert/strict';
import { test } from 'node:test';

import { Failure, LeaseLost, Parked, Stopped } from '../worker/index.js';
import { gate, serve } from './working.js';

const kinds = (entries) => entries.map(({ kind, body }) => (body.name ? `${kind} ${body.name}` : kind));

test('a worker with one effect, one approval and streamed text', async (t) => {
  let calls = 0;
  const bench = await serve(t, async (s) => {
    const price = await s.effect('price', () => { calls++; return { euro: 42 }; });
    const question = { prompt: 'May I buy it?', action: 'buy', arguments: price };
    if (!await s.approval('buy', question)) return `no: ${s.ticket('buy').reason}`;
    for (const word of ['It ', 'costs ', `${price.euro}.`]) await s.write(word);
  });
  const run = await bench.send('buy it');
  assert.equal((await bench.end(run, 'waiting')).status, 'waiting');
  assert.deepEqual((await bench.decide(run)).arguments, { euro: 42 });
  const done = await bench.end(run);
  assert.deepEqual([done.status, done.reply, done.attempt, calls], ['completed', 'It costs 42.', 2, 1]);

  const denied = await bench.send('buy it');
  await bench.end(denied, 'waiting');
  await bench.decide(denied, 'deny', { reason: 'too dear' });
  assert.equal((await bench.end(denied)).reply, 'no: too dear');
});

test('text arrives while it is written, whole across cuts in characters', async (t) => {
  const [reading, pause] = [gate(), gate()];
  const bench = await serve(t, async (s) => {
    await reading.opened; // what is shown is shown once
    const said = 'Grüße 👋🏽 an alle';
    for (const half of said.split('')) s.write(half); // halves of surrogate pairs, not awaited
    await s.reasoning('hmm \ud83d'); // stays alone
    await s.toolArguments('c1', 'mail', '{"to":');
    await pause.opened;
    await s.write('\udc00!\ud83d');
  });
  const run = await bench.send('hi');
  let live = '';
  const channels = new Set();
  const onState = (state) => state === 'live' && reading.open();
  for await (const { kind, delta } of bench.client.follow({ run, onState })) {
    if (kind !== 'delta') continue;
    channels.add(delta.channel);
    if (delta.channel === 'text' && delta.offset === Buffer.byteLength(live)) live += delta.text;
    if (live === 'Grüße 👋🏽 an alle' && channels.size === 3) pause.open();
  }
  assert.deepEqual([...channels].sort(), ['text', 'thinking', 'tool']);
  assert.equal((await bench.client.run(run)).reply, 'Grüße 👋🏽 an alle\ufffd!\ufffd');
});

test('a step commits what belongs together, and a later run finds the state and the log', async (t) => {
  const bench = await serve(t, async (s) => {
    if (s.state) {
      const log = await s.log({ kinds: ['x.note', 'tool.started', 'tool.finished'] });
      const before = await s.transcript(2);
      return JSON.stringify([s.state, s.checkpoint, kinds(log), before.map(({ text }) => text)]);
    }
    await s.write('Let me see.');
    await s.tool.started('c1', 'look', { at: 'door' });
    await s.tool.finished('c1', { summary: 'open', output: { open: true } });
    const entries = [{ kind: 'x.note', body: { n: 1 } }];
    const usage = { output_tokens: 3, model: 'm' };
    await s.step({ name: 'seen', state: { seen: 1 }, checkpoint: [2], usage, entries, progress: 0.5 });
    assert.deepEqual([s.state, s.checkpoint], [{ seen: 1 }, [2]]);
    await s.step({ parts: [{ type: 'reasoning', text: 'thought' }, { type: 'data', data: { a: 1 } }] });
    return 'It is open.';
  });
  const first = await bench.end(await bench.send('look'));
  assert.deepEqual([first.status, first.reply], ['completed', 'It is open.']);
  assert.deepEqual([first.usage.output_tokens, first.usage.model], [3, 'm']);
  const messages = (await bench.client.messages(first.thread, { all: true })).items;
  const shown = messages.map(({ text, visibility, parts }) => [text, visibility, parts.map(({ type }) => type).join()]);
  assert.deepEqual(shown, [
    ['look', 'all', 'text'], ['Let me see.', 'internal', 'text'], ['', 'all', 'reasoning,data'],
    ['It is open.', 'all', 'text'],
  ]);
  const second = await bench.end((await bench.client.send('again', { thread: first.thread })).run);
  const [state, checkpoint, log, before] = JSON.parse(second.reply);
  assert.deepEqual([state, checkpoint, log], [{ seen: 1 }, null, ['tool.started look', 'tool.finished', 'x.note']]);
  assert.equal(before.at(-1), 'It is open.');
});

test('effects and tools that run in parallel are each called once', async (t) => {
  const calls = [];
  const bench = await serve(t, async (s) => {
    const call = (i) => s.effect(`e${i}`, () => { calls.push(i); return i; }, { input: { i } });
    const all = await Promise.all(Array.from({ length: 20 }, (_, i) => call(i % 10)));
    await Promise.all(all.map((_, i) => s.tool.started(`c${i}`, 'x')));
    return all.join(' ');
  });
  const done = await bench.end(await bench.send('go'));
  assert.equal(done.reply, '0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9');
  assert.deepEqual(calls.sort(), [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
});

test('an attempt that parks waits for the effects that run beside it', async (t) => {
  let calls = 0;
  const bench = await serve(t, async (s) => {
    const slow = s.effect('slow', async () => {
      calls++;
      await new Promise((resolve) => { setTimeout(resolve, 30); });
      return 'done';
    });
    const [yes, no, value] = await Promise.all([s.approval('a'), s.approval('b', { prompt: 'b?' }), slow]);
    return `${yes} ${no} ${value}`;
  });
  const run = await bench.send('go');
  await bench.end(run, 'waiting');
  assert.equal((await bench.client.tickets({ q: `run:${run} state:open` })).items.length, 2, 'both questions are open');
  await bench.decide(run, 'approve');
  await bench.end(run, 'waiting');
  while ((await bench.client.run(run)).status !== 'waiting') await bench.end(run, 'waiting');
  await bench.decide(run, 'approve');
  assert.deepEqual([(await bench.end(run)).reply, calls], ['true true done', 1]);
});

test('an error of an effect is not its value, and a retry calls it again', async (t) => {
  const calls = { effect: 0, memo: 0 };
  const bench = await serve(t, async (s) => {
    const answer = () => { calls.memo++; return `answer ${calls.memo}`; };
    const model = await s.memo('model', answer, { input: { b: 1, a: 2 } });
    const value = await s.effect('pay', () => {
      if (++calls.effect === 1) throw new Error('bank is closed');
      return 'paid';
    });
    return `${model}, ${value}`;
  }, { retry: { first: '1ms' } });
  const done = await bench.end(await bench.send('go'));
  assert.deepEqual([done.reply, done.failures, calls], ['answer 1, paid', 1, { effect: 2, memo: 1 }]);
});

test('the same name with another input or another question is a conflict', async (t) => {
  const bench = await serve(t, async (s) => {
    const attempt = (call) => call.then(() => 'ok', (error) => error.code);
    const seen = [
      await attempt(s.effect('pay', () => 1, { input: { a: 1, b: [2] } })),
      await attempt(s.effect('pay', () => 1, { input: { b: [2], a: 1 } })),
      await attempt(s.effect('pay', () => 1, { input: { a: 2 } })),
    ];
    if (s.run.attempt === 1) await s.approval('q', { action: 'pay', arguments: { to: 'anna' } });
    seen.push(await attempt(s.approval('q', { action: 'pay', arguments: { to: 'eve' } })));
    return seen.join(' ');
  });
  const run = await bench.send('go');
  await bench.end(run, 'waiting');
  await bench.decide(run);
  assert.equal((await bench.end(run)).reply, 'ok ok conflict conflict');
});

test('a child, an input, a timer, an event and a message to another thread', async (t) => {
  const bench = await serve(t, {
    js: async (s) => {
      await s.send('note', { agent: 'poet', text: 'by the way', thread: 'notes' });
      const [one, two] = await Promise.all(['one', 'two'].map((name) => s.call(name, { agent: 'poet', text: name })));
      await s.sleep('nap', 1);
      const answer = await s.ask('name', { prompt: 'Who?' });
      const gone = await s.event('post', { expires: '1ms' });
      return `${one.reply} ${two.reply} ${two.status} ${answer} ${gone}`;
    },
    poet: (s) => `poem of ${s.text}`,
  });
  const run = await bench.send('go');
  const asked = async () => (await bench.question(run))?.kind === 'input';
  for await (const { kind, entry } of bench.client.follow({ run })) {
    if (kind !== 'entry' || entry.kind !== 'run.waiting') continue;
    if (await asked()) await bench.decide(run, 'answer', { answer: 'anna' });
  }
  assert.equal((await bench.client.run(run)).reply, 'poem of one poem of two completed anna null');
  assert.equal((await bench.client.messages('notes')).items[0].text, 'by the way');
});

test('a steered message is read once, and a stop ends the handler, which can save', async (t) => {
  const steered = gate();
  const bench = await serve(t, async (s) => {
    await s.write('I begin. ');
    for (let read = []; read.length === 0; read = await s.steered()) {
      if (s.signal.aborted) throw s.signal.reason;
      await s.step({ name: 'turn' });
      for (const { text } of read) steered.open(text);
      await new Promise((resolve) => { setTimeout(resolve, 5); });
    }
    steered.open('read');
    await s.write('Left unsaid');
    try {
      for (;;) await s.step({ name: 'loop', aside: true }); // a stop ends it
    } catch (error) {
      await s.step({ name: 'saved' }, { afterStop: true });
      await s.write('x').catch(() => {});
      throw error;
    }
  });
  const { run, thread } = await bench.client.send('go', { agent: 'js' });
  for await (const { entry } of bench.client.follow({ run })) if (entry?.kind === 'step') break;
  await bench.client.send('look left', { thread, mode: 'steer' });
  await steered.opened;
  await bench.client.cancel(run);
  const done = await bench.end(run);
  assert.equal(done.status, 'cancelled');
  assert.equal((await bench.entries(run, 'message')).at(-1).body.text, 'Left unsaid');
  assert.equal((await bench.entries(run, 'step')).at(-1).body.name, 'saved');
});

test('a handler that swallows the park is parked, and one that ignores its stop loses its attempt', async (t) => {
  const begun = gate();
  const bench = await serve(t, {
    js: async (s) => {
      try {
        await s.approval('may');
      } catch (error) {
        assert.ok(error instanceof Parked);
        await assert.rejects(s.write('x'), Parked);
        return 'I went on';
      }
      return 'asked';
    },
    deaf: () => {
      begun.open();
      return new Promise(() => {});
    },
  });
  const run = await bench.send('go');
  assert.equal((await bench.end(run, 'waiting')).status, 'waiting');
  await bench.decide(run);
  assert.equal((await bench.end(run)).reply, 'asked');

  const deaf = await bench.send('go', { agent: 'deaf' });
  await begun.opened;
  await bench.client.cancel(deaf);
  assert.equal((await bench.end(deaf)).status, 'cancelled');
  await bench.logged('did not return in time');
});

test('a worker that is stopped finishes what it runs, and gives back what it may not finish', async (t) => {
  const [begun, again, finish] = [gate(), gate(), gate()];
  const reasons = [];
  const bench = await serve(t, async (s) => {
    (s.text === 'patient' ? begun : again).open();
    if (s.text === 'patient') return finish.opened.then(() => 'finished');
    return new Promise((_, reject) => {
      s.signal.addEventListener('abort', () => { reasons.push(s.signal.reason); reject(s.signal.reason); });
    });
  });
  const run = await bench.send('patient');
  await begun.opened;
  const stopping = bench.worker.stop();
  const queued = await bench.send('later');
  finish.open();
  await stopping;
  assert.equal((await bench.client.run(run)).reply, 'finished');
  assert.equal((await bench.client.run(queued)).status, 'queued', 'nothing is claimed after the stop');
  assert.deepEqual(await bench.client.workers().then((all) => all.filter(({ agents }) => agents.includes('js'))), []);

  const second = bench.start();
  await again.opened;
  await second.stop({ within: 0 });
  const given = await bench.client.run(queued);
  assert.deepEqual([given.status, given.failures, given.crashes], ['queued', 0, 0]);
  assert.ok(reasons[0] instanceof Stopped);
});

test('failures say how the run goes on', async (t) => {
  const bench = await serve(t, {
    js: () => { throw new Failure('no such account', { class: 'permanent' }); },
    plain: (s) => { if (s.run.attempt < 3) throw new Error('try again'); return 'third time'; },
    odd: () => { throw undefined; },
  }, { retry: { attempts: 3, first: '1ms' } });
  const run = await bench.end(await bench.send('go'));
  const { status, error, attempt } = run;
  assert.deepEqual([status, error.class, error.message, attempt], ['failed', 'permanent', 'no such account', 1]);
  assert.equal((await bench.end(await bench.send('go', { agent: 'plain' }))).reply, 'third time');
  assert.match((await bench.end(await bench.send('go', { agent: 'odd' }))).error.message, /threw no error/);
  assert.ok(!(new Failure('x') instanceof LeaseLost));
});

test('a turn whose last step spends the budget ends as its handler says', async (t) => {
  const usage = { input_tokens: 5, output_tokens: 5 };
  const bench = await serve(t, async (s) => {
    await s.step({ usage });
    if (s.text === 'fail') throw new Failure('the model refuses the request', { class: 'permanent' });
    if (s.text === 'go on') await s.step({ name: 'another' });
    return 'the answer';
  });
  const end = async (text) => bench.end(await bench.send(text, { budget: { tokens: 10 } }), 'waiting');
  const done = await end('answer');
  assert.deepEqual([done.status, done.reply, done.attempt], ['completed', 'the answer', 1]);
  assert.equal((await end('fail')).status, 'failed');
  assert.equal((await end('go on')).status, 'waiting');
});
