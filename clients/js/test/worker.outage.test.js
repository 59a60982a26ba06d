import assert from 'node:assert/strict';
import { once } from 'node:events';
import { describe, test } from 'node:test';

import { MailroomError } from '../errors.js';
import { Lease } from '../worker/lease.js';
import { elsewhere, gate, serve } from './working.js';
import { wire } from './wire.js';

const short = 'lease = "6s"\nrenew = "2s"\n'; // after a kill a run waits for the end of the lease

async function effects(bench, run) {
  const entries = await bench.entries(run, 'effect.intended', 'effect.settled', 'effect.unknown');
  return entries.map(({ kind }) => kind.slice('effect.'.length));
}

// They wait for the end of a lease, all at the same time.
describe('after the end of a lease', { concurrency: true }, () => {
  for (const [decision, reply, calls] of [['approve', '"again"', 1], ['answer', '"answered"', 0], ['deny', null, 0]]) {
    test(`a process that is killed in an effect leaves it unknown, and a person decides: ${decision}`, async (t) => {
      const bench = await serve(t, null, { config: short });
      const victim = await elsewhere(t, bench.server, 'inside');
      const run = await bench.send('pay');
      await victim.said('inside');
      victim.child.kill('SIGKILL');
      let called = 0;
      const worker = bench.start(async (s) => JSON.stringify(await s.effect('pay', () => { called++; return 'again'; })));
      t.after(() => worker.stop({ within: 0 }));
      assert.equal((await bench.end(run, 'waiting')).status, 'waiting');
      assert.deepEqual(await effects(bench, run), ['intended', 'unknown']);
      const ticket = await bench.decide(run, decision, decision === 'answer' ? { answer: 'answered' } : {});
      assert.equal(ticket.name, 'effect:pay#1');
      const done = await bench.end(run);
      assert.deepEqual([done.reply, called], [reply, calls]);
      if (decision === 'deny') assert.deepEqual([done.status, done.error.class], ['failed', 'permanent']);
    });
  }

  test('an idempotent effect is called again with the same key, and reconcile finds out about one', async (t) => {
    const bench = await serve(t, null, { config: short });
    for (const [options, called, reply] of [
      [{ idempotent: true }, (run) => [`${run}/pay`], 'called'],
      [{ reconcile: () => ({ value: 'found' }) }, () => [], 'found'],
      [{ reconcile: () => undefined }, (run) => [`${run}/pay`], 'called'],
    ]) {
      const victim = await elsewhere(t, bench.server, 'inside');
      const run = await bench.send('pay');
      await victim.said('inside');
      victim.child.kill('SIGKILL');
      const keys = [];
      const worker = bench.start((s) => s.effect('pay', (key) => { keys.push(key); return 'called'; }, options));
      const done = await bench.end(run);
      assert.deepEqual([done.reply, keys], [reply, called(run)]);
      await worker.stop();
    }
  });

  test('a process that is stopped for longer than its lease is fenced, and another one goes on', async (t) => {
    const bench = await serve(t, null, { config: short });
    const frozen = await elsewhere(t, bench.server, 'after');
    const run = await bench.send('pay');
    await frozen.said('after');
    frozen.child.kill('SIGSTOP');
    let called = 0;
    const worker = bench.start(async (s) => `paid ${await s.effect('pay', () => { called++; return 8; })}`);
    t.after(() => worker.stop({ within: 0 }));
    const done = await bench.end(run);
    assert.deepEqual([done.reply, called], ['paid 7', 0]);
    assert.ok(done.attempt >= 2, `attempt ${done.attempt}`); // a busy machine may cost a lease of this short time too
    frozen.child.kill('SIGCONT');
    await frozen.said('LeaseLost');
    assert.deepEqual(await effects(bench, run), ['intended', 'settled']);
    assert.deepEqual(frozen.lines.filter((line) => line === 'paid'), ['paid']);
    frozen.child.kill('SIGTERM');
    await frozen.said('stopped');
  });

  test('a handler that blocks its process for longer than a lease loses its run, and the worker says so', async (t) => {
    const bench = await serve(t, null, { config: short });
    const blocked = await elsewhere(t, bench.server, 'blocked');
    const run = await bench.send('go');
    const done = await bench.end(run);
    assert.deepEqual([done.reply, done.attempt], ['went on', 2]);
    assert.ok(blocked.lines.some((line) => line.startsWith('worker stood still')), blocked.lines.join('\n'));
  });

  test('an outage longer than the lease ends the handler, and the worker goes on after it', async (t) => {
    const begun = gate();
    const lost = gate();
    const bench = await serve(t, async (s) => {
      if (s.run.attempt > 1) return 'went on';
      begun.open();
      return new Promise((_, reject) => {
        s.signal.addEventListener('abort', () => { lost.open(s.signal.reason.name); reject(s.signal.reason); });
      });
    }, { config: short });
    const run = await bench.send('go');
    await begun.opened;
    await bench.server.kill();
    assert.equal(await lost.opened, 'LeaseLost');
    await bench.server.start();
    assert.equal((await bench.end(run)).reply, 'went on');
  });

  test('a handler that ends its process loses its run to the next worker, and its effect is not called again', async (t) => {
    const bench = await serve(t, null, { config: short });
    const victim = await elsewhere(t, bench.server, 'exits');
    const ended = once(victim.child, 'exit');
    const run = await bench.send('pay');
    assert.equal((await ended)[0], 3);
    let called = 0;
    const worker = bench.start(async (s) => `again ${await s.effect('pay', () => { called++; return 8; })}`);
    t.after(() => worker.stop({ within: 0 }));
    const done = await bench.end(run);
    assert.deepEqual([done.reply, done.attempt, called], ['again 7', 2, 0]);
  });
});

for (const [mode, reply] of [['forks', 'paid 7'], ['closes', 'closed 7']]) {
  test(`a handler that ${mode}, its child or its stdout, ends as if it had not, and its worker goes on`, async (t) => {
    const bench = await serve(t);
    await elsewhere(t, bench.server, mode);
    for (const text of ['one', 'two']) {
      const done = await bench.end(await bench.send(text));
      assert.ok([reply, `idle ${text}`].includes(done.reply), done.reply ?? done.error?.message);
      assert.equal(done.attempt, 1);
    }
  });
}

test('a run goes on across a kill of the server', async (t) => {
  const begun = gate();
  const finish = gate();
  let calls = 0;
  const bench = await serve(t, async (s) => {
    await s.effect('once', () => { calls++; });
    await s.write('before ');
    begun.open();
    await finish.opened;
    await s.step({ name: 'after' });
    return 'after';
  });
  const run = await bench.send('go');
  await begun.opened;
  await bench.server.kill();
  finish.open(); // the step meets no server
  await bench.server.start();
  const done = await bench.end(run);
  assert.deepEqual([done.status, done.reply, calls], ['completed', 'after', 1]);
});

test('lost answers to a claim, a step, an effect and a settle change nothing', async (t) => {
  const bench = await serve(t);
  const proxy = await wire(t, bench.server.url);
  let [calls, settled] = [0, null];
  const handler = async (s) => {
    const cuts = [/effect.intended/, /effect.settled/, /"name":"look"/, /"outcome":"complete"/].map(proxy.cut);
    await s.effect('pay', () => { calls++; return 1; });
    await s.step({ name: 'look' });
    await Promise.all(cuts.slice(0, 3));
    settled = cuts[3];
    return 'done';
  };
  const worker = bench.start(handler, { url: proxy.url });
  t.after(() => worker.stop({ within: 0 }));
  await worker.ready;
  const claimed = proxy.cut(/"round":2/);
  assert.equal((await bench.end(await bench.send('first'))).status, 'completed');
  await settled;
  const run = await bench.send('second');
  assert.match(await claimed, new RegExp(run));
  const done = await bench.end(run);
  assert.deepEqual([done.status, done.reply, done.attempt, done.crashes, calls], ['completed', 'done', 1, 0, 2]);
  assert.deepEqual((await bench.entries(run, 'step')).length, 1);
  assert.deepEqual(await effects(bench, run), ['intended', 'settled']);
  await worker.stop();
});

test('a claim whose answer is lost while the worker stops is given back', async (t) => {
  const bench = await serve(t);
  const proxy = await wire(t, bench.server.url);
  const worker = bench.start(() => 'done', { url: proxy.url });
  await worker.ready;
  const claimed = proxy.cut(/"round":1/);
  const run = await bench.send('go', { max_crashes: 0 }); // it never starts twice
  assert.match(await claimed, new RegExp(run));
  await worker.stop();
  const given = await bench.client.run(run);
  assert.ok(given.status === 'queued' || given.status === 'completed', given.status);
  assert.deepEqual([given.crashes, given.failures], [0, 0]);
  const next = bench.start(() => 'done');
  assert.equal((await bench.end(run)).reply, 'done');
  await next.stop();
});

test('a worker that stops does not wait for a server that is gone', async (t) => {
  const bench = await serve(t);
  const claimed = gate();
  let gone = false;
  const failing = async (url, options) => {
    gone ||= String(url).endsWith('/settle');
    if (gone) throw new TypeError('fetch failed');
    const { contract, ...answer } = await (await fetch(url, options)).json(); // of an older server
    if (contract) answer.contract = 3;
    if (answer.claims?.length > 0 && !claimed.passed) {
      claimed.passed = true;
      claimed.open();
      throw new TypeError('fetch failed');
    }
    return Response.json({ ...answer, lease_ms: 6000 });
  };
  const worker = bench.start(() => 'done', { fetch: failing });
  await worker.ready;
  await bench.send('go');
  await claimed.opened;
  await worker.stop(); // gives back what it claims again, until the lease ends
  assert.ok(gone);
});

test('a renewal waits for its answer no longer than the lease lasts', async () => {
  const asked = performance.now();
  const late = [];
  let before = asked; // a moment before the timeout was chosen, however busy the machine is
  const link = {
    post: async (path, body, { timeout }) => {
      late.push(before + timeout - (asked + 300));
      await new Promise((resolve) => { setTimeout(resolve, timeout / 3); });
      before = performance.now();
      throw new MailroomError('unavailable', 'no answer');
    },
  };
  const lease = new Lease(link, { warn() {} }, { worker: 'w', lease_ms: 300 }, asked);
  await once(lease.signal, 'abort');
  assert.equal(lease.signal.reason.name, 'LeaseLost');
  assert.ok(late.length > 1 && late.every((ms) => ms <= 0), `${late}`);
});

test('a worker on SIGTERM finishes its run and ends by itself', async (t) => {
  const bench = await serve(t);
  const { child, said } = await elsewhere(t, bench.server, 'after');
  const run = await bench.send('pay');
  await said('after');
  child.kill('SIGTERM');
  await bench.client.cancel(run);
  await said('stopped');
  if (child.exitCode === null) await once(child, 'exit');
  assert.equal((await bench.client.run(run)).status, 'cancelled');
});

for (const [contract, want, how] of [
  [3, [undefined, { js: 0 }, {}], 'to an older server it is repeated for no slot'],
  [99, [undefined, { entered: [] }], 'the server releases what it claimed'],
]) {
  test(`a worker that is stopped before it repeats a claim waits for no other run: ${how}`, async (t) => {
    const bench = await serve(t);
    const [failed, asked] = [gate(), []];
    const failing = async (url, { body, ...options }) => {
      const { round, agents, ...rest } = JSON.parse(body ?? '{}');
      if (round) asked.push(agents);
      if (String(url).endsWith('/leave')) asked.push(rest);
      if (round && asked.length === 1) {
        failed.open();
        throw new TypeError('fetch failed');
      }
      const answer = await fetch(url, { body, ...options });
      return String(url).endsWith('/claims') ? Response.json({ ...await answer.json(), contract }) : answer;
    };
    const worker = bench.start({ js: () => {} }, { fetch: failing });
    await failed.opened;
    await bench.logged('claim not answered');
    await worker.stop();
    assert.deepEqual(asked, want);
  });
}
