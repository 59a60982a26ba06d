// How long an attempt may take, and what a silent one says.

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';

import { gate, serve } from './working.js';

const config = 'run_deadline = "2s"\n';

/** Resolves after that time, or rejects once the attempt has to end. */
const busy = (s, ms) => new Promise((resolve, reject) => {
  const timer = setTimeout(resolve, ms);
  s.signal.addEventListener('abort', () => { clearTimeout(timer); reject(s.signal.reason); });
});

test('an attempt ends at its deadline, unless a step has asked for more time', async (t) => {
  const bench = await serve(t, {
    js: async (s) => {
      await s.step({ name: 'long', extend: '5m' });
      await busy(s, 2500);
      await s.step({ name: 'short', extend: 1 }); // takes nothing away
      await busy(s, 500);
      return 'in time';
    },
    late: (s) => busy(s, 600_000),
  }, { config, retry: { attempts: 1 } });
  const runs = await Promise.all([bench.send('go'), bench.send('go', { agent: 'late' })]);
  const [extended, late] = await Promise.all(runs.map((run) => bench.end(run)));
  assert.deepEqual([extended.status, extended.reply, extended.attempt], ['completed', 'in time', 1], extended.error?.message);
  assert.equal(late.status, 'failed');
  assert.match(late.error.message, /^the attempt took longer than \d{4} ms$/);
});

test('a server that knows no extend has the step all the same, and refuses another invalid one', async (t) => {
  const steps = [];
  const old = async (url, options) => {
    const { step } = JSON.parse(options.body ?? '{}');
    if (step?.name) steps.push([step.name, step.extend]);
    if (step?.extend !== '10m') return fetch(url, options);
    const errors = [{ location: 'body.step.extend', message: 'unknown field' }];
    return Response.json({ code: 'invalid', detail: 'body.step.extend: unknown field', errors }, { status: 422 });
  };
  const bench = await serve(t, async (s) => {
    await s.step({ name: 'first', extend: '10m' });
    await assert.rejects(s.step({ name: 'wrong', extend: 'long' }), { code: 'invalid' });
    await s.step({ name: 'last' });
    return 'done';
  }, { fetch: old });
  const done = await bench.end(await bench.send('go'));
  assert.deepEqual([done.reply, done.attempt], ['done', 1], done.error?.message);
  const expected = [['first', '10m'], ['first', undefined], ['wrong', 'long'], ['last', undefined]];
  assert.deepEqual(steps, expected);
});

// They wait for renewals, all at the same time.
describe('beside an older server', { concurrency: true }, () => {
  for (const [contract, status] of [[2, 200], [3, 200], [3, 422]]) {
    test(`contract ${contract}, ${status}: what a silent handler waits for costs no lease`, async (t) => {
      const [told, forgotten] = [gate(), gate()];
      const renewals = [];
      const altered = async (url, options) => {
        const { pathname } = new URL(url);
        if (!pathname.endsWith('/renew')) {
          const response = await fetch(url, options);
          if (!pathname.endsWith('/claims')) return response;
          return Response.json({ ...await response.json(), contract });
        }
        const { waits_on: waits } = JSON.parse(options.body);
        renewals.push(waits && Object.values(waits));
        if (renewals.length > 2) (renewals.some(Boolean) && !waits ? forgotten : told).open();
        if (waits && status === 422) return Response.json({ code: 'invalid', detail: 'waits_on: unknown field' }, { status });
        return fetch(url, { ...options, body: '{}' });
      };
      const bench = await serve(t, async (s) => {
        s.waitsOn('cargo test');
        await told.opened;
        await s.step({ name: 'tested' });
        await (contract < 3 || forgotten.opened);
        return 'done';
      }, { fetch: altered });
      const done = await bench.end(await bench.send('go'));
      assert.deepEqual([done.reply, done.attempt], ['done', 1], done.error?.message);
      const said = renewals.filter(Boolean);
      assert.equal(said.length > 0, contract >= 3, JSON.stringify(renewals));
      assert.ok(said.every(([text]) => text === 'cargo test'));
    });
  }
});
