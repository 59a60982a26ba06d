// The tree of spans of a run, and its time axis.

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';

import { merge, trim } from '../console/loaded.js';
import { makeScale, placeOf, ticks } from '../console/scale.js';
import { compare, gapKinds, keptOf, spansOf, sumUp } from '../console/spans.js';

const BEGIN = Date.parse('2026-11-29T10:00:00Z');
const at = (ms) => new Date(BEGIN + ms).toISOString();

/** Entries of a run from lists of [milliseconds, kind, attempt, body]. */
const log = (...list) => list.map(([ms, kind, attempt = 0, body = {}], i) => ({ thread: 't', seq: i + 1, kind, run: 'r', attempt, at: at(ms), body }));

const run = (status, more = {}) => ({ id: 'r', status, created_at: at(0), finished_at: null, ...more });

/** A tree as lines: kind, name, begin, length, state and how the end is known. */
function lines(spans, depth = 0) {
  return spans.flatMap((one) => [
    `${'  '.repeat(depth)}${one.kind} ${one.name}: ${one.from - BEGIN}+${one.to - one.from} ${one.state} ${one.end}${one.before ? ' before' : ''}${one.outlives ? ' outlives' : ''}`,
    ...lines(one.children, depth + 1),
  ]);
}

describe('the spans of a run', () => {
  test('have queue, attempts, steps, tools, effects, waits, questions and children', () => {
    const entries = log(
      [0, 'run.queued', 0, { agent: 'coder', available_at: at(0) }],
      [100, 'run.started', 1, { worker: 'w' }],
      [150, 'tool.started', 1, { call: 'c1', name: 'bash', arguments: { cmd: 'make' } }],
      [400, 'tool.finished', 1, { call: 'c1', ok: false, summary: 'exit 2' }],
      [410, 'step', 1, { name: 'built' }],
      [420, 'effect.settled', 1, { name: 'model', result: 1 }],
      [430, 'effect.intended', 1, { name: 'mail' }],
      [460, 'effect.settled', 1, { name: 'mail', result: 'sent' }],
      [470, 'send', 1, { thread: 'other', run: 'child', answer: true }],
      [480, 'ticket.opened', 1, { id: 'q', kind: 'approval', name: 'ok', prompt: 'Deploy?' }],
      [480, 'run.waiting', 1, { tickets: ['q'] }],
      [5480, 'ticket.decided', 0, { ticket: 'q', decision: 'approve', decided_by: 'ann' }],
      [5500, 'run.resumed', 2, { worker: 'w' }],
      [5600, 'message', 2, { role: 'assistant', text: 'Done.' }],
      [5600, 'run.completed', 2, { reply: 'Done.' }],
    );
    const child = { id: 'child', agent: 'tester', title: 'test it', status: 'completed', created_at: at(470), finished_at: at(900) };
    const tree = spansOf(run('completed', { finished_at: at(5600) }), entries, { now: BEGIN + 9e9, children: [child] });
    assert.deepEqual(lines(tree.spans), [
      'queue Queue: 0+100 done log',
      'attempt Attempt 1: 100+380 waiting log',
      '  tool bash: 150+250 failed log',
      '  step built: 100+310 done log',
      '  memo model: 420+0 done log',
      '  effect mail: 430+30 done log',
      '  child test it: 470+430 done log outlives',
      'wait Waits: Approval: Deploy?: 480+5020 done log',
      '  question Approval: Deploy?: 480+5000 done log',
      'attempt Attempt 2: 5500+100 done log',
      '  message Done.: 5600+0 done log',
    ]);
    assert.deepEqual([tree.from, tree.to], [BEGIN, BEGIN + 5600]);
  });

  test('without an end in the log end with their attempt, the next attempt, the run or now, and say so', () => {
    const begun = [[0, 'run.queued'], [10, 'run.started', 1, {}], [20, 'tool.started', 1, { call: 'c', name: 'bash' }], [30, 'effect.intended', 1, { name: 'pay' }]];
    const going = spansOf(run('running'), log(...begun), { now: BEGIN + 1000 });
    assert.deepEqual(lines(going.spans), ['queue Queue: 0+10 done log', 'attempt Attempt 1: 10+990 running now', '  tool bash: 20+980 running now', '  effect pay: 30+970 running now']);
    assert.ok(going.spans[1].open && going.spans[1].children[0].open);

    const lost = spansOf(run('running'), log(...begun, [500, 'run.rescheduled', 1, { reason: 'lease_lost', available_at: at(500) }], [600, 'run.started', 2, {}], [610, 'effect.unknown', 2, { name: 'pay' }]), { now: BEGIN + 1000 });
    assert.deepEqual(lines(lost.spans).slice(1), [
      'attempt Attempt 1: 10+490 lost log', '  tool bash: 20+480 unknown attempt', '  effect pay: 30+470 unknown attempt',
      'pause Waits for another worker: 500+100 done log', 'attempt Attempt 2: 600+400 running now', '  effect pay: 610+0 unknown log',
    ]);

    const silent = spansOf(run('running'), log(...begun, [600, 'run.started', 2, {}]), { now: BEGIN + 700 });
    assert.match(lines(silent.spans)[1], /attempt Attempt 1: 10\+590 lost next/);
    assert.match(JSON.stringify(silent.spans[1].detail), /drawn to the begin of the next attempt/);

    const cut = spansOf(run('failed', { finished_at: at(800) }), log(...begun), { now: BEGIN + 9e9 });
    assert.match(lines(cut.spans)[1], /attempt Attempt 1: 10\+790 unknown run/);

    const late = spansOf(run('cancelled', { finished_at: at(50) }), log(...begun, [50, 'run.cancelled', 1, { by: 'ann' }], [70, 'effect.settled', 1, { name: 'pay', result: 1 }]), { now: BEGIN + 9e9 });
    assert.ok(lines(late.spans).includes('  effect pay: 30+40 done log outlives'), 'an effect that is recorded after a stop');
  });

  test('of a run that was retried by hand have both queues', () => {
    const entries = log([0, 'run.queued'], [10, 'run.started', 1, {}], [20, 'run.failed', 1, { error: { class: 'permanent', message: 'no' } }], [500, 'run.retried', 0, { by: 'ann' }], [510, 'run.started', 2, {}]);
    const tree = spansOf(run('running'), entries, { now: BEGIN + 600 });
    assert.deepEqual(lines(tree.spans).map((line) => line.replace(/: \d+\+\d+/, '')), ['queue Queue done log', 'attempt Attempt 1 failed log', 'queue Queue, after a retry by hand done log', 'attempt Attempt 2 running now']);
  });

  test('say what a gap of entries that are not loaded hides', () => {
    const all = log([0, 'run.queued'], [10, 'run.started', 1, {}], [20, 'tool.started', 1, { call: 'a', name: 'in' }], [30, 'tool.finished', 1, { call: 'a', ok: true }], [40, 'tool.started', 1, { call: 'b', name: 'after' }], [60, 'run.completed', 1, {}]);
    const shown = all.filter(({ seq }) => seq !== 4);
    const tree = spansOf(run('completed', { finished_at: at(60) }), shown, { now: BEGIN + 99, gap: { after: 3, before: 5 } });
    assert.deepEqual(lines(tree.spans).slice(2), ['  tool in: 20+40 unknown unloaded', '  tool after: 40+20 unknown attempt']);
    assert.match(JSON.stringify(tree.spans[1].detail), /Not all of its entries are loaded/);
  });

  test('keep untrusted values as they are, and names short', () => {
    for (const body of [null, [], 'x', 7, { call: {}, name: { a: 1 }, ok: 'no', tickets: 'q', error: 'x', reason: [] }]) {
      for (const kind of ['run.queued', 'run.started', 'run.rescheduled', 'run.waiting', 'tool.started', 'tool.finished', 'effect.intended', 'effect.settled', 'effect.unknown', 'ticket.opened', 'ticket.decided', 'send', 'step', 'message', 'run.failed', 'run.newer', 'x.mine', 'run.__proto__', '__proto__']) {
        const { spans } = spansOf(run('running'), log([0, 'run.started', 1, {}], [1, kind, 1, body], [2, kind, 1, body]), { now: BEGIN + 5 });
        assert.ok(spans.every(({ name }) => typeof name === 'string'), kind);
      }
    }
    const long = spansOf(run('running'), log([0, 'run.started', 1, {}], [1, 'tool.started', 1, { call: 'c', name: 'x'.repeat(9999) }]), { now: BEGIN + 5 });
    assert.equal(long.spans[0].children[0].name.length, 200);
  });
});

/** Numbers from 0 to below n, the same for the same seed. */
function dice(seed) {
  let state = seed;
  return (n) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state % n;
  };
}

const KINDS = [
  'run.queued', 'run.started', 'run.resumed', 'run.rescheduled', 'run.waiting', 'run.completed', 'run.failed', 'run.cancelled', 'run.retried', 'run.stop_requested',
  'step', 'tool.started', 'tool.started', 'tool.finished', 'effect.intended', 'effect.settled', 'effect.unknown', 'ticket.opened', 'ticket.decided', 'ticket.expired', 'send', 'message', 'message.read', 'x.note',
];

function history(seed) {
  const roll = dice(seed);
  let [ms, attempt] = [0, 0];
  const entries = log(...Array.from({ length: 3 + roll(60) }, () => {
    const kind = KINDS[roll(KINDS.length)];
    ms += roll(100) - (roll(8) === 0 ? 500 : 0); // the clock goes back
    if (kind === 'run.started' || kind === 'run.resumed') attempt++;
    const body = { call: `c${roll(3)}`, name: `n${roll(3)}`, id: `q${roll(3)}`, ticket: `q${roll(3)}`, tickets: [`q${roll(3)}`, `q${roll(3)}`], run: `k${roll(3)}`, reason: ['retry', 'lease_lost', 'released', 'gave_way'][roll(4)], role: 'assistant', decision: 'approve', ok: roll(2) === 0 };
    return [ms, kind, Math.max(0, attempt - roll(2)), body];
  }));
  const status = ['running', 'waiting', 'queued', 'completed', 'failed', 'cancelled'][roll(6)];
  const finished = ['completed', 'failed', 'cancelled'].includes(status) ? at(ms - roll(300)) : null;
  const gap = roll(2) === 0 ? null : { after: roll(entries.length), before: entries.length - roll(2) };
  const children = [{ id: 'k0', status: 'running', created_at: at(roll(900) - 300) }, { id: 'k9', status: 'failed', created_at: at(50), finished_at: at(roll(90)) }];
  return { run: run(status, { finished_at: finished }), entries, more: { now: BEGIN + ms + roll(500), gap, children } };
}

test('no span of 3,000 random histories has a negative length or is outside of its parent without saying so', () => {
  for (let seed = 1; seed <= 3000; seed++) {
    const { run: row, entries, more } = history(seed);
    const tree = spansOf(row, entries, more);
    const ids = new Set();
    const check = (spans, parent) => {
      for (const one of spans) {
        assert.ok(one.to >= one.from, `seed ${seed}: ${one.id} has a negative length`);
        assert.ok(!ids.has(one.id), `seed ${seed}: ${one.id} twice`);
        ids.add(one.id);
        assert.ok(one.from >= tree.from && one.to <= tree.to, `seed ${seed}: ${one.id} is outside of the tree`);
        if (parent) assert.deepEqual([one.before, one.outlives], [one.from < parent.from, one.to > parent.to], `seed ${seed}: ${one.id}`);
        assert.equal(one.open, one.end === 'now', `seed ${seed}: ${one.id}`);
        if (one.open && one.kind !== 'child') assert.equal(row.finished_at, null, `seed ${seed}: ${one.id} is open in a run that has ended`);
        check(one.children, one);
      }
    };
    check(tree.spans, null);
    assert.equal(JSON.stringify(spansOf(row, entries, more)), JSON.stringify(tree), `seed ${seed}: not the same twice`);
  }
});

describe('many spans', () => {
  const many = (n) => Array.from({ length: n }, (_, i) => [100 + i, 'step', 1, { name: `s${i}` }]);

  test('beyond a bound are summed up', () => {
    const [{ children }] = spansOf(run('running'), log([0, 'run.started', 1, {}], ...many(500)), { now: BEGIN + 9999 }).spans;
    assert.equal(children.length, 500);
    const shown = sumUp(children, 100);
    assert.equal(shown.length, 101);
    assert.deepEqual([shown[100].kind, shown[100].name, shown[100].count, shown[100].from - BEGIN, shown[100].to - BEGIN], ['more', '400 more', 400, 199, 599]);
    assert.equal(sumUp(children.slice(0, 101), 100).length, 101);
    assert.equal(sumUp(children.slice(0, 101), 100)[100].kind, 'step');
  });

  test('of 100,000 entries and 20,000 attempts take no time that grows with their square', () => {
    const list = [];
    for (let i = 0; i < 20_000; i++) list.push([i * 5, 'run.started', i + 1, {}], [i * 5 + 1, 'effect.intended', i + 1, { name: `e${i}` }], [i * 5 + 2, 'ticket.opened', i + 1, { id: `q${i}` }], [i * 5 + 3, 'ticket.decided', 0, { ticket: `q${i}` }], [i * 5 + 4, 'run.rescheduled', i + 1, { reason: 'retry' }]);
    const entries = log(...list);
    const begun = performance.now();
    spansOf(run('queued'), entries, { now: BEGIN + 1e6 });
    assert.ok(performance.now() - begun < 5000, `${performance.now() - begun} ms`); // 0.1 s alone; by a square, minutes
  });
});

test('two attempts are compared span by span', () => {
  const entries = log(
    [0, 'run.started', 1, {}], [1, 'tool.started', 1, { call: 'a', name: 'read' }], [2, 'tool.finished', 1, { call: 'a' }], [3, 'tool.started', 1, { call: 'b', name: 'read' }], [9, 'tool.finished', 1, { call: 'b', ok: false }],
    [10, 'run.rescheduled', 1, { reason: 'retry' }],
    [20, 'run.started', 2, {}], [21, 'tool.started', 2, { call: 'a', name: 'look' }], [22, 'tool.finished', 2, { call: 'a' }], [23, 'tool.started', 2, { call: 'b', name: 'read' }], [29, 'tool.finished', 2, { call: 'b' }], [30, 'step', 2, { name: 'end' }],
  );
  const [first, second] = spansOf(run('running'), entries, { now: BEGIN + 99 }).spans.filter(({ kind }) => kind === 'attempt');
  const rows = compare(first, second).map(({ name, a, b }) => [name, a && a.to - a.from, b && b.to - b.from]);
  assert.deepEqual(rows, [['look', null, 1], ['read', 1, 6], ['read', 6, null], ['end', null, 10]]);
});

describe('the time axis', () => {
  const words = (ms) => `${ms}ms`;

  test('is linear without long idle times', () => {
    const scale = makeScale(0, 1000, [[0, 400], [500, 1000]]);
    assert.deepEqual(scale.parts, [{ from: 0, to: 1000, left: 0, right: 1, short: false }]);
    assert.equal(placeOf(scale, 250), 0.25);
    assert.deepEqual(ticks(scale, 400, words).map(({ text }) => text), ['0', '200ms', '400ms', '600ms', '800ms']);
  });

  test('shortens idle times, keeps the order of times, and says what it shortened', () => {
    const days = 3 * 86_400_000;
    const scale = makeScale(0, days + 2000, [[0, 1000], [days + 1000, days + 2000]]);
    assert.deepEqual(scale.parts.map(({ short }) => short), [false, true, false]);
    const labels = ticks(scale, 900, words);
    assert.deepEqual(labels.filter(({ short }) => short).map(({ text }) => text), [`${days}ms`]);
    assert.match(labels.at(-1).text, /^\+/, 'behind it, times count from its end');
    assert.ok(placeOf(scale, days + 1000) - placeOf(scale, 1000) < 0.3);
    let last = -1;
    for (let time = -5; time <= days + 3000; time += days / 997) {
      const place = placeOf(scale, time);
      assert.ok(place >= last && place >= 0 && place <= 1);
      last = place;
    }
    assert.equal(makeScale(0, days + 2000, [[0, 1000]], false).parts.length, 1, 'the true scale');
  });

  test('leaves out lengths of shortened parts that would touch', () => {
    const scale = makeScale(0, 1e6, Array.from({ length: 40 }, (_, i) => /** @type {[number, number]} */ ([i * 25_000, i * 25_000 + 10])));
    const list = ticks(scale, 600, words);
    assert.ok(list.length > 2 && list.length < 12, `${list.length} labels`);
    for (const [j, tick] of list.entries()) if (j > 0) assert.ok((tick.at - list[j - 1].at) * 600 >= 55.9);
  });

  test('has few ticks that do not touch, from a millisecond to a year, in 300 random histories', () => {
    const roll = dice(7);
    for (let i = 0; i < 300; i++) {
      const end = 1 + roll(10) ** (1 + roll(11));
      const busy = /** @type {[number, number][]} */ (Array.from({ length: roll(6) }, () => [roll(1000) / 1000 * end, roll(1000) / 1000 * end]));
      const scale = makeScale(0, end, busy);
      const width = 120 + roll(1700);
      const list = ticks(scale, width, words);
      assert.ok(list.length <= width / 40 + 6 * 2 && list.length > 0, `${list.length} ticks of ${end} ms on ${width}`);
      for (const [j, tick] of list.entries()) if (j > 0) assert.ok((tick.at - list[j - 1].at) * width >= 55.9, JSON.stringify(list));
      assert.equal(scale.parts[0].left, 0);
      assert.equal(scale.parts.at(-1).right, 1);
      for (const [j, part] of scale.parts.entries()) assert.ok(part.right >= part.left && (j === 0 || part.from === scale.parts[j - 1].to), JSON.stringify(scale.parts));
    }
  });
});

describe('the loaded entries of a run', () => {
  test('are merged in order, each once', () => {
    const all = log(...Array.from({ length: 9 }, (_, i) => [i, 'step', 1]));
    const seqs = (list) => list.map(({ seq }) => seq);
    assert.deepEqual(seqs(merge(all.slice(0, 4), all.slice(4))), [1, 2, 3, 4, 5, 6, 7, 8, 9]);
    assert.deepEqual(seqs(merge(all.slice(2, 6), [all[0], { ...all[3] }, all[8]])), [1, 3, 4, 5, 6, 9]);
    assert.deepEqual(seqs(merge([], [])), []);
  });

  test('are not more than a page may hold: the first, the newest, and what says when attempts begin and end', () => {
    const held = { entries: [], gap: null, blind: false };
    const kinds = ['tool.started', 'tool.finished', 'step', 'run.started', 'run.rescheduled'];
    for (let n = 0; n < 5000; n++) {
      held.entries = merge(held.entries, [{ thread: 't', seq: n + 1, kind: kinds[n % (n < 300 ? 5 : 3)], run: 'r', attempt: 1, at: at(n), body: {} }]);
      trim(held, 400, 100);
      assert.ok(held.entries.length <= 400, `${held.entries.length} entries`);
    }
    const { entries, gap } = held;
    assert.equal(entries.at(-1).seq, 5000);
    assert.deepEqual(entries.slice(0, 100).map(({ seq }) => seq), Array.from({ length: 100 }, (_, i) => i + 1));
    assert.equal(gap.after, 100);
    assert.ok(gap.before > 4700 && entries.filter(({ seq }) => seq >= gap.before).every(({ seq }, i) => seq === gap.before + i), 'the newest ones have no gap');
    const between = entries.filter(({ seq }) => seq > gap.after && seq < gap.before);
    assert.deepEqual([between.length, between.every(({ kind }) => gapKinds.includes(kind))], [80, true]); // all of 101 to 300
    assert.equal(held.blind, false);
    const grown = { entries: log(...Array.from({ length: 500 }, (_, i) => [i, 'step', 1])), gap: { after: 350, before: 400 }, blind: false };
    trim(grown, 400, 100);
    assert.deepEqual([grown.entries.length, grown.gap], [300, { after: 100, before: 301 }]);
  });
});

test('a retry keeps recorded effects and decisions, until one started over', () => {
  const entries = log(
    [0, 'run.started', 1, {}], [1, 'effect.intended', 1, { name: 'mail' }], [2, 'effect.settled', 1, { name: 'mail', result: 1 }], [3, 'effect.settled', 1, { name: 'plan', result: 2 }],
    [4, 'effect.intended', 1, { name: 'pay' }], [5, 'effect.settled', 1, { name: 'pay', error: 'no' }], [6, 'effect.intended', 1, { name: 'ship' }], [7, 'ticket.decided', 0, { ticket: 'q' }], [8, 'send', 1, { run: 'k' }],
  );
  assert.deepEqual(keptOf(entries), { done: ['mail', 'plan'], failed: ['pay'], unknown: ['ship'], decided: 1, sent: 1 });
  assert.deepEqual(keptOf([...entries, ...log([9, 'run.retried', 0, { by: 'ann' }])]).done, ['mail', 'plan']);
  assert.deepEqual(keptOf([...entries, ...log([9, 'run.retried', 0, { by: 'ann', fresh: true }])]), { done: [], failed: [], unknown: [], decided: 0, sent: 1 });
});
