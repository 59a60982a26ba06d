import assert from 'node:assert/strict';
import { describe, test } from 'node:test';

import { bars, mostWithin, RANGES, read, request, sumsRequest, total } from '../console/series.js';

const bounds = [10, 100, 1000];

const point = (at, change) => ({
  at, completed: 0, failed: 0, cancelled: 0, started: 0, start_delay_ms: 0, ran_ms: 0, input_tokens: 0, output_tokens: 0, cost_usd: 0, start_delays: [0, 0, 0, 0], ...change,
});

describe('the bars of a chart', () => {
  test('each range asks for whole bars, within the bound of the server', () => {
    const now = Date.parse('2026-11-27T06:37:21.5Z');
    for (const [name, { step, seconds, bar }] of Object.entries(RANGES)) {
      const { from, to } = request(name, now);
      assert.equal((Date.parse(to) - Date.parse(from)) / 1000, seconds, name);
      assert.ok(Date.parse(from) / 1000 % bar === 0 && Date.parse(to) > now && Date.parse(to) - now <= bar * 1000, `${name}: ${from} to ${to}`);
      assert.ok(seconds / { minute: 60, hour: 3600, day: 86_400 }[step] <= 1500, name);
    }
  });

  test('a range is compared with the one before it, and agents by few whole periods', () => {
    const now = Date.parse('2026-11-27T06:37:21.5Z');
    for (const [name, { seconds }] of Object.entries(RANGES)) {
      const before = request(name, now, { before: true });
      assert.equal(before.to, request(name, now).from, name);
      assert.equal((Date.parse(before.to) - Date.parse(before.from)) / 1000, seconds, name);
      const { step, from, to } = sumsRequest(name, now);
      const length = { hour: 3_600_000, day: 86_400_000 }[step];
      assert.ok(Date.parse(from) % length === 0 && Date.parse(to) > now && Date.parse(to) - now <= length, `${name}: ${from} to ${to}`);
      assert.ok((Date.parse(to) - Date.parse(from)) / length <= 31, name);
    }
  });

  test('what people read of sums has no number of no run', () => {
    const none = point('2026-11-27T06:00:00Z', {});
    assert.deepEqual(read(none), { ended: 0, cost: 0, failed: 0, failing: null, success: null, delay: null, each: null });
    const some = read({ ...none, completed: 1, failed: 1, cancelled: 2, started: 2, start_delay_ms: 30, cost_usd: 1 });
    assert.deepEqual(some, { ended: 4, cost: 1, failed: 1, failing: 0.25, success: 0.5, delay: 15, each: 0.25 });
  });

  test('periods add up to bars without gaps', () => {
    const series = {
      step: 'minute', from: '2026-11-27T06:00:00Z', to: '2026-11-27T07:00:00Z', start_delay_bounds_ms: bounds,
      items: [
        point('2026-11-27T06:00:00Z', { completed: 1, started: 1, start_delays: [1, 0, 0, 0] }), point('2026-11-27T06:14:00Z', { completed: 2, cost_usd: 0.5 }),
        point('2026-11-27T06:45:00Z', { failed: 3, started: 2, start_delays: [0, 0, 0, 2] }),
      ],
    };
    const list = bars(series, 900);
    assert.deepEqual(list.map(({ completed, failed }) => [completed, failed]), [[3, 0], [0, 0], [0, 0], [0, 3]]);
    assert.equal(list[1].at - list[0].at, 900);
    const sums = total(list);
    assert.deepEqual([sums.completed, sums.failed, sums.cost_usd, sums.start_delays], [3, 3, 0.5, [1, 0, 0, 2]]);
    assert.deepEqual(list[0].start_delays, [1, 0, 0, 0], 'the total changed the first bar');
    assert.deepEqual(bars({ ...series, from: series.to, items: [] }, 900), []);
  });

  test('nine of ten runs started within a bound', () => {
    const within = (...start_delays) => mostWithin({ started: start_delays.reduce((a, b) => a + b), start_delays }, bounds);
    assert.equal(within(0, 0, 0, 0), null);
    assert.equal(within(9, 0, 0, 1), 10);
    assert.equal(within(8, 1, 0, 1), 100);
    assert.equal(within(1, 0, 0, 1), Infinity);
    assert.equal(within(0, 0, 1, 0), 1000);
  });
});
