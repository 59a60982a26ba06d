import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';

import { Transcript } from '../mailroom.js';

/** A log of one thread, of which each call appends an entry. */
function log() {
  const entries = [];
  const append = (kind, run, attempt, body) => {
    const seq = entries.length + 1;
    entries.push({ thread: 't', seq, kind, run, attempt, at: '2026-11-21T10:00:00Z', body });
    return seq;
  };
  const say = (role, id, run, attempt, text, more = {}) => append('message', run, attempt, {
    id, role, sender: role, run, text, parts: [{ type: 'text', text }], visibility: 'all', partial: false, ...more,
  });
  return {
    entries,
    append,
    asks: (run, text) => {
      const seq = say('user', `${run}.in`, run, 0, text);
      append('run.queued', run, 0, { agent: 'echo', messages: [`${run}.in`], available_at: '2026-11-21T10:00:00Z' });
      return seq;
    },
    user: (id, run, text) => say('user', id, run, 0, text),
    answers: (id, run, attempt, text, more) => say('assistant', id, run, attempt, text, more),
    started: (run, attempt, ...messages) => append('run.started', run, attempt, { worker: 'w', messages }),
  };
}

const fold = (entries, transcript = new Transcript()) => {
  for (const entry of entries) transcript.take({ kind: 'entry', cursor: String(entry.seq), entry });
  return transcript;
};

const live = (transcript, run, attempt, message, offset, text) => transcript.take({
  kind: 'delta', delta: { run, attempt, message, offset, channel: 'text', text },
});

const texts = ({ items }) => items.filter(({ kind }) => kind === 'message').map(({ text }) => text);

test('messages are in order of reading, and unread ones come last', () => {
  const l = log();
  const one = l.asks('r1', 'one');
  l.started('r1', 1, one);
  const two = l.asks('r2', 'two');
  l.answers('r1.1-1', 'r1', 1, 're one');
  const t = fold(l.entries);
  assert.deepEqual(texts(t), ['one', 're one', 'two']);
  assert.deepEqual(t.items.map(({ state }) => state), ['read', 'read', 'accepted']);
  assert.equal(t.current.id, 'r1');
  assert.equal(t.queued, 1);
  l.append('run.completed', 'r1', 1, { reply: 're one' });
  l.started('r2', 1, two);
  l.answers('r2.1-1', 'r2', 1, 're two');
  l.append('run.completed', 'r2', 1, { reply: 're two' });
  fold(l.entries, t);
  assert.deepEqual(texts(t), ['one', 're one', 'two', 're two']);
  assert.equal(t.current, null);
});

test('entries of kinds that a newer server writes show nothing and change nothing', () => {
  const one = log();
  one.started('r', 1, one.asks('r', 'hello'));
  const before = fold(one.entries);
  for (const kind of ['run.newer', 'message.newer', 'ticket.newer', 'effect.newer', 'newer']) one.append(kind, 'r', 1, { n: 1 });
  const after = fold(one.entries);
  assert.equal(after.lastSeq, one.entries.length);
  for (const of of ['read', 'unread', 'asked']) assert.deepEqual(after[of], before[of]);
  assert.deepEqual(after.runs.get('r'), before.runs.get('r'));
});

test('a steered message is at the position of its read', () => {
  const l = log();
  l.started('r1', 1, l.asks('r1', 'one'));
  const seq = l.user('s', 'r1', 'and this');
  l.answers('r1.1-1', 'r1', 1, 'first');
  l.append('message.read', 'r1', 1, { message: 's', seq });
  l.answers('r1.1-2', 'r1', 1, 'second');
  assert.deepEqual(texts(fold(l.entries)), ['one', 'first', 'and this', 'second']);
});

test('an edit replaces its message, and a retracted message is removed', () => {
  const l = log();
  l.asks('r1', 'on');
  const edit = l.append('message.edited', 'r1', 0, { message: 'r1.in', text: 'one', parts: [] });
  l.asks('r2', 'never mind');
  l.append('message.retracted', 'r2', 0, { message: 'r2.in' });
  l.append('run.cancelled', 'r2', 0, { reason: 'retracted' });
  l.started('r1', 1, edit);
  const t = fold(l.entries);
  assert.deepEqual(t.items.map(({ text, state }) => [text, state]), [['one', 'read']]);
});

test('a message that was superseded before it was read is marked so', () => {
  const l = log();
  l.asks('r1', 'one');
  const two = l.asks('r2', 'two');
  l.append('run.cancelled', 'r1', 0, { reason: 'superseded' });
  l.started('r2', 1, two);
  const t = fold(l.entries);
  assert.deepEqual(t.items.map(({ text, state }) => [text, state]), [['one', 'superseded'], ['two', 'read']]);
});

test('thinking is apart from the text and ends with its message', () => {
  const l = log();
  l.started('r1', 1, l.asks('r1', 'one'));
  const t = fold(l.entries);
  const think = (message, offset, text) => t.take({
    kind: 'delta', cursor: '3:0', delta: { run: 'r1', attempt: 1, message, offset, channel: 'thinking', text },
  });
  think('m', 0, 'hm ü');
  think('m', 0, 'hm ü');
  think('m', 3, 'ü, yes');
  assert.equal(t.thinking.text, 'hm ü, yes');
  assert.equal(t.items.length, 1, 'the thinking is no message');
  live(t, 'r1', 1, 'm', 0, 'Hello');
  assert.equal(t.items.at(-1).text, 'Hello');
  think('m', 99, 'after a gap');
  assert.equal(t.thinking.text, 'after a gap');
  l.answers('m', 'r1', 1, 'Hello');
  fold(l.entries, t);
  assert.equal(t.thinking, null);
  think('m', 0, 'late');
  assert.equal(t.thinking, null);
  think('n', 0, 'more');
  l.append('run.completed', 'r1', 1, {});
  fold(l.entries, t);
  assert.equal(t.thinking, null);
});

test('live text is appended by offset: repeats and gaps change nothing', () => {
  const l = log();
  l.started('r1', 1, l.asks('r1', 'one'));
  const t = fold(l.entries);
  const reply = () => t.items.at(-1).text;
  live(t, 'r1', 1, 'm', 0, 'Grüße, ');
  live(t, 'r1', 1, 'm', 0, 'Grüße, ');
  assert.equal(reply(), 'Grüße, ');
  live(t, 'r1', 1, 'm', 0, 'Grüße, 👋 all');
  assert.equal(reply(), 'Grüße, 👋 all');
  live(t, 'r1', 1, 'm', 9, '👋 all of'); // ü and ß are two bytes each
  assert.equal(reply(), 'Grüße, 👋 all of');
  live(t, 'r1', 1, 'm', 99, 'lost');
  assert.equal(reply(), 'Grüße, 👋 all of');
  assert.equal(t.items.at(-1).live, true);
  l.answers('m', 'r1', 1, 'Grüße, 👋 all of you');
  fold(l.entries, t);
  assert.equal(reply(), 'Grüße, 👋 all of you');
  assert.equal(t.items.at(-1).live, false);
});

test('live text of a message with an entry, or of an older attempt, is dropped', () => {
  const l = log();
  l.started('r1', 1, l.asks('r1', 'one'));
  l.answers('r1.1-1', 'r1', 1, 'done');
  const t = fold(l.entries);
  live(t, 'r1', 1, 'r1.1-1', 0, 'do');
  assert.deepEqual(texts(t), ['one', 'done']);
  live(t, 'r1', 1, 'r1.1-2', 0, 'next');
  assert.deepEqual(texts(t), ['one', 'done', 'next']);
  l.append('run.rescheduled', 'r1', 1, { reason: 'lease_lost', attempt: 1, available_at: '2026-11-21T10:00:01Z' });
  l.started('r1', 2);
  fold(l.entries, t);
  assert.deepEqual(texts(t), ['one', 'done'], 'nothing of it was kept');
  live(t, 'r1', 1, 'r1.1-2', 0, 'late');
  assert.deepEqual(texts(t), ['one', 'done']);
});

// The server's transcript is tested with the same logs.
for (const { name, entries, read } of JSON.parse(readFileSync(new URL('../../../testdata/reading.json', import.meta.url), 'utf8'))) {
  test(`read in order: ${name}`, () => {
    const t = fold(entries.map((entry, i) => ({ thread: 't', seq: i + 1, at: '2026-11-21T10:00:00Z', ...entry })));
    assert.deepEqual(t.read.filter(({ kind }) => kind === 'message').map(({ text }) => text), read);
    assert.deepEqual(t.unread, []);
  });
}

// The turns of a transcript, in the words of the server's own fold.
function turns(t) {
  const lines = new Map();
  for (const run of t.runs.values()) if (run.status) lines.set(run.id, [`${run.id} ${run.status}`]);
  const json = (value) => (value === undefined || value === null ? '' : JSON.stringify(value));
  for (const item of t.read) lines.get(item.run)?.push(...(WORDS[item.kind]?.(item, json) ?? []));
  const { writing } = t;
  if (writing) {
    const more = lines.get(writing.run);
    if (writing.thinking) more.push(`reasoning live ${json(writing.thinking.text)}`);
    if (writing.text) more.push(`text live ${json(writing.text.item.text)}`);
    for (const { item } of writing.calls.values()) more.push(words('tool live', item.name, json(item.detail)));
  }
  return [...lines.values()].flat();
}

const words = (...list) => list.filter(Boolean).join(' ');

const WORDS = {
  message: ({ role, parts, partial, again, aside }, json) => (role === 'assistant' ? parts : [])
    .filter(({ type }) => ['text', 'reasoning', 'data', 'file'].includes(type))
    .map(({ type, name, text, data, uri }) => words(
      type, 'done', name, text && json(text), json(data), uri, aside && 'internal', partial && 'partial', again && 'superseded')),
  note: ({ about, name, detail, progress, result, output, status }, json) => ({
    step: [words('step', progress, name)],
    tool: [words('tool', progress, name, detail !== undefined && `in ${json(detail)}`, result && json(result), output !== undefined && `out ${json(output)}`)],
    send: [words('child', progress, 'in', name, status, result && json(result))],
  }[about] ?? []),
  ticket: ({ ticket: { state, name, prompt, kind, arguments: given, digest, decision, decided_by: by, answer } }, json) => [words(
    'question', state === 'decided' ? 'done' : state, name, prompt && json(prompt), kind, json(given), digest && `digest ${digest}`,
    decision, by && `by ${by}`, json(answer))],
  retry: ({ reason, error }, json) => [words('error done', error?.class, error?.message && json(error.message), reason, 'again true')],
  end: ({ status, error }, json) => (status === 'failed' ? [words('error done', error?.class, error?.message && json(error.message), 'again false')] : []),
};

// The server's turns are tested with the same logs.
for (const { name, events, turns: want } of JSON.parse(readFileSync(new URL('../../../testdata/turns.json', import.meta.url), 'utf8'))) {
  test(`turns: ${name}`, () => {
    const t = new Transcript();
    for (const { entry, delta } of events) t.take(entry ? { kind: 'entry', entry } : { kind: 'delta', delta });
    assert.deepEqual(turns(t), want);
    const keys = t.items.map(({ key }) => key);
    assert.equal(new Set(keys).size, keys.length, 'keys are unique');
    t.prepend([]);
    assert.deepEqual(turns(t), want, 'folded again');
  });
}

test('text of an interrupted attempt is marked when the next one starts', () => {
  const l = log();
  l.started('r1', 1, l.asks('r1', 'one'));
  l.answers('r1.1-1', 'r1', 1, 'hal', { partial: true });
  const t = fold(l.entries);
  assert.deepEqual([t.items[1].partial, t.items[1].again], [true, false]);
  l.append('run.rescheduled', 'r1', 1, { reason: 'retry', attempt: 1, available_at: '2026-11-21T10:00:01Z', error: { class: 'transient', message: 'x' } });
  fold(l.entries, t);
  assert.deepEqual([t.items[1].partial, t.items[1].again], [true, true]);
  assert.equal(t.items[2].kind, 'retry');
  assert.equal(t.current.status, 'queued');
});

test('a run that ends before it starts shows why, and its message was not read', () => {
  for (const [what, body, status] of [
    ['run.failed', { error: { class: 'permanent', message: 'its deadline has passed' } }, 'failed'],
    ['run.cancelled', { reason: 'cancelled' }, 'cancelled'],
    ['run.cancelled', { reason: 'deadline' }, 'cancelled'],
  ]) {
    const l = log();
    l.asks('r1', 'one');
    l.append(what, 'r1', 0, body);
    const t = fold(l.entries);
    assert.deepEqual(t.items.map(({ kind, state, status: end }) => state ?? `${kind} ${end}`), ['unread', `end ${status}`]);
    l.append('run.retried', 'r1', 0, { by: 'anna' });
    fold(l.entries, t);
    assert.deepEqual(t.items.filter(({ kind }) => kind === 'message').map(({ state }) => state), ['accepted']);
  }
});

test('a stopped or failed run ends with its reason and can be retried', () => {
  const l = log();
  l.started('r1', 1, l.asks('r1', 'one'));
  l.append('run.stop_requested', 'r1', 1, { reason: 'cancelled', by: 'anna' });
  const t = fold(l.entries);
  assert.equal(t.current.stopping, true);
  l.append('run.cancelled', 'r1', 1, { reason: 'cancelled', by: 'anna' });
  fold(l.entries, t);
  const { kind, status, reason } = t.items.at(-1);
  assert.deepEqual({ kind, status, reason }, { kind: 'end', status: 'cancelled', reason: 'cancelled' });
  assert.equal(t.current, null);
  t.changed();
  l.append('run.retried', 'r1', 1, { by: 'anna' });
  fold(l.entries, t);
  assert.equal(t.runs.get('r1').status, 'queued');
  assert.deepEqual([...t.changed()], [t.items.at(-1)], 'what is shown of its end changes');
});

test('tickets show their prompt and their outcome', () => {
  const l = log();
  l.started('r1', 1, l.asks('r1', 'one'));
  const ask = (id, kind) => l.append('ticket.opened', 'r1', 1, { id, run: 'r1', thread: 't', name: id, kind, prompt: '?', digest: 'd', state: 'open' });
  for (const id of ['yes', 'late', 'left']) ask(id, 'approval');
  ask('child', 'children');
  l.append('run.waiting', 'r1', 1, { tickets: ['yes'] });
  const t = fold(l.entries);
  assert.equal(t.current.status, 'waiting');
  l.append('ticket.decided', 'r1', 1, { ticket: 'yes', decision: 'approve', answer: null, reason: 'fine', decided_by: 'anna' });
  l.append('ticket.expired', 'r1', 1, { ticket: 'late' });
  l.append('run.resumed', 'r1', 2, { messages: [] });
  l.append('run.completed', 'r1', 2, { reply: null });
  fold(l.entries, t);
  assert.deepEqual(t.items.filter(({ kind }) => kind === 'ticket').map(({ ticket }) => [ticket.id, ticket.state]),
    [['yes', 'decided'], ['late', 'expired'], ['left', 'void']]);
});

test('a tool call becomes its result', () => {
  const l = log();
  l.started('r1', 1, l.asks('r1', 'one'));
  l.append('tool.started', 'r1', 1, { call: 'c', name: 'look', arguments: { at: 'sea' } });
  const t = fold(l.entries);
  assert.equal(t.items.at(-1).progress, 'open');
  l.append('tool.finished', 'r1', 1, { call: 'c', ok: true, summary: 'grey' });
  fold(l.entries, t);
  assert.equal(t.items.length, 2);
  assert.deepEqual([t.items[1].name, t.items[1].progress, t.items[1].result], ['look', 'done', 'grey']);
});

test('prepended pages give the same as the whole log, for every cut', () => {
  const l = log();
  const one = l.asks('r1', 'one');
  const two = l.asks('r2', 'two');
  l.asks('r3', 'three');
  l.started('r1', 1, one);
  const steered = l.user('s', 'r1', 'also');
  l.answers('r1.1-1', 'r1', 1, 'hal', { partial: true });
  l.append('run.rescheduled', 'r1', 1, { reason: 'lease_lost', attempt: 1, available_at: '2026-11-21T10:00:00Z' });
  l.started('r1', 2);
  l.append('message.read', 'r1', 2, { message: 's', seq: steered });
  l.append('ticket.opened', 'r1', 2, { id: 'k', run: 'r1', name: 'k', kind: 'approval', prompt: '?', digest: 'd', state: 'open' });
  l.append('ticket.decided', 'r1', 2, { ticket: 'k', decision: 'deny', answer: null, reason: '', decided_by: 'anna' });
  l.answers('r1.2-1', 'r1', 2, 'whole');
  l.append('run.cancelled', 'r3', 0, { reason: 'superseded' });
  l.append('run.completed', 'r1', 2, { reply: 'whole' });
  l.started('r2', 1, two);
  const whole = fold(l.entries);
  live(whole, 'r2', 1, 'r2.1-1', 0, 'writing');
  for (let cut = 0; cut <= l.entries.length; cut++) {
    const t = fold(l.entries.slice(cut));
    live(t, 'r2', 1, 'r2.1-1', 0, 'writing');
    t.prepend(l.entries.slice(0, cut));
    assert.deepEqual(t.items, whole.items, `cut at ${cut}`);
    assert.deepEqual([...t.runs], [...whole.runs], `cut at ${cut}`);
    assert.equal(t.firstSeq, 1);
  }
});

test('rows of older runs and tickets are shown until their entries arrive', () => {
  const l = log();
  l.started('r1', 1, l.asks('r1', 'one'));
  const ticket = { id: 'k', run: 'r1', name: 'k', kind: 'approval', prompt: '?', digest: 'd', state: 'open' };
  l.append('ticket.opened', 'r1', 1, ticket);
  l.append('run.waiting', 'r1', 1, { tickets: ['k'] });
  const cut = l.entries.length;
  l.asks('r2', 'two');
  const t = fold(l.entries.slice(cut));
  t.know({ runs: [{ id: 'r1', agent: 'echo', status: 'waiting', attempt: 1, stopping: false, started_at: '2026-11-21T10:00:00Z' }], tickets: [ticket] });
  assert.equal(t.current.id, 'r1');
  assert.deepEqual(t.items.map(({ key }) => key), ['ticket:k', 'message:r2.in']);
  t.prepend(l.entries.slice(0, cut));
  assert.deepEqual(t.items.map(({ key }) => key), ['message:r1.in', 'ticket:k', 'message:r2.in']);
});

test('a message before the loaded part that is read in it is missing until it is loaded', () => {
  const l = log();
  const one = l.asks('r1', 'on');
  const edit = l.append('message.edited', 'r1', 0, { message: 'r1.in', text: 'one', parts: [] });
  const two = l.asks('r2', 'two');
  l.asks('r3', 'three');
  const cut = l.entries.length;
  l.started('r1', 1, edit);
  l.answers('r1.1-1', 'r1', 1, 're one');
  l.append('run.completed', 'r1', 1, {});
  l.started('r2', 1, two);
  const t = fold(l.entries.slice(cut));
  assert.deepEqual([texts(t), [...t.missing]], [['re one'], [edit, two]]);
  t.know({ entries: l.entries.slice(0, cut).filter(({ kind }) => kind.startsWith('message')) });
  assert.deepEqual([texts(t), [...t.missing]], [['one', 're one', 'two'], []]);
  t.prepend(l.entries.slice(0, cut));
  assert.deepEqual(texts(t), ['one', 're one', 'two', 'three']);
  assert.ok(one < edit);
});

test('internal messages are not shown', () => {
  const l = log();
  l.started('r1', 1, l.append('message', 'r1', 0, { id: 'x', role: 'user', run: 'r1', text: 'x', parts: [], visibility: 'internal' }));
  assert.deepEqual(fold(l.entries).items, []);
});

test('internal text of an agent is an aside', () => {
  const l = log();
  l.started('r1', 1, l.user('r1.in', 'r1', 'one'));
  l.answers('r1.1-1', 'r1', 1, 'on the way', { visibility: 'internal' });
  l.answers('r1.1-2', 'r1', 1, 'the reply');
  assert.deepEqual(fold(l.entries).items.map(({ text, aside }) => [text, aside]), [['one', false], ['on the way', true], ['the reply', false]]);
});

test('a gap is shown', () => {
  const t = new Transcript();
  t.take({ kind: 'gap', cursor: '7', gap: { after: 0, oldest: 8, last: 20 } });
  assert.equal(t.items[0].kind, 'gap');
});

test('what an agent waits for is known until anything else of its run comes', () => {
  const l = log();
  l.started('r1', 1, l.asks('r1', 'one'));
  const t = fold(l.entries);
  const waits = (attempt, text) => t.take({ kind: 'delta', cursor: '3:0', delta: { run: 'r1', attempt, message: '', offset: 0, channel: 'waits', text } });
  waits(1, 'cargo test');
  assert.equal(t.waitsOn.text, 'cargo test');
  const { since } = t.waitsOn;
  waits(1, 'cargo test');
  assert.equal(t.waitsOn.since, since, 'a repeat is new');
  t.prepend([]);
  assert.equal(t.waitsOn.text, 'cargo test', 'older entries ended it');
  waits(0, 'an older attempt');
  assert.equal(t.waitsOn.text, 'cargo test');
  live(t, 'r1', 1, 'm', 0, 'Hello');
  assert.equal(t.waitsOn, null);
  t.know({ runs: [{ id: 'r1', agent: 'a', status: 'running', attempt: 1, stopping: false, available_at: '', started_at: 'x', waits_on: { text: 'tests', since: 'y' } }] });
  assert.deepEqual(t.waitsOn, { run: 'r1', attempt: 1, text: 'tests', since: 'y' });
  l.answers('m', 'r1', 1, 'Hello');
  fold(l.entries, t);
  assert.equal(t.waitsOn, null);
  waits(1, 'more');
  l.append('run.completed', 'r1', 1, {});
  fold(l.entries, t);
  assert.equal(t.waitsOn, null);
  waits(1, 'late');
  assert.equal(t.waitsOn, null);
});
