// How often an open page asks a busy server.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { paced } from '../console/pace.js';

/** Calls of a load that takes so many milliseconds, while entries come every 100 ms for so many milliseconds. */
async function calls(t, took, entries) {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  let now = 0;
  t.mock.method(performance, 'now', () => now);
  const at = [];
  const pace = paced(() => {
    at.push(now);
    return new Promise((resolve) => { setTimeout(resolve, took); });
  });
  for (; now < 60_000; now += 100) {
    if (now < entries) pace.ask();
    t.mock.timers.tick(100);
    for (let i = 0; i < 5; i++) await null; // what waits for the timers goes on
  }
  pace.end();
  return at;
}

test('the first entry loads at once, and one load comes after the last one', async (t) => {
  assert.deepEqual(await calls(t, 50, 100), [0]);
  t.mock.reset();
  const two = await calls(t, 50, 200);
  assert.equal(two.length, 2);
  assert.ok(two[1] >= 1_000 && two[1] <= 1_300, `the second load began after ${two[1]} ms`);
});

test('a busy server is asked at most once a second, and a slow one for a tenth of the time', async (t) => {
  const quick = await calls(t, 10, 60_000);
  assert.ok(quick.length >= 50 && quick.length <= 60, `${quick.length} loads in a minute`);
  t.mock.reset();
  const slow = await calls(t, 500, 60_000);
  assert.ok(slow.length >= 11 && slow.length <= 13, `${slow.length} loads of half a second in a minute`);
  t.mock.reset();
  assert.ok((await calls(t, 5_000, 60_000)).length >= 4, 'it rests for ten seconds at most');
});
