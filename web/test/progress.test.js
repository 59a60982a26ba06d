// What the pages show of a run that is not over: what its agent thinks, and why it waits for its next try.

import assert from 'node:assert/strict';
import { mkdir } from 'node:fs/promises';
import { after, before, test } from 'node:test';

import { Mailroom } from '../../clients/js/mailroom.js';
import { open } from '../../clients/js/test/server.js';
import { launch, openPage, signIn } from './browser.js';
import { Person, shoot, shots } from './person.js';

let context;
let close;
before(async () => {
  await mkdir(shots, { recursive: true });
  [context, close] = await launch({ reducedMotion: 'reduce' });
});
after(() => close());

/** A worker of the agent js, which holds one claim and does what the test says. */
async function work(t, server) {
  const { token } = JSON.parse(await server.command('token', 'create', 'w', '--scope', 'work', '--agent', 'js', '-o', 'json'));
  const call = async (path, body) => {
    const answer = await fetch(`${server.url}/v1/${path}`, { method: 'POST', headers: { Authorization: `Bearer ${token}`, 'Content-Type': 'application/json' }, body: JSON.stringify(body) });
    const text = await answer.text();
    assert.ok(answer.ok, text);
    return text ? JSON.parse(text) : null;
  };
  const { worker, lease_ms: lease } = await call('claims', { agents: ['js'], max: 0, pid: process.pid });
  const held = [];
  let round = 0;
  const waits = {};
  const renew = () => call(`workers/${worker}/renew`, { round, held, waits_on: waits });
  const renewing = setInterval(() => renew().catch(() => {}), lease / 6); // the last one may fail, because the server has ended
  t.after(() => clearInterval(renewing));
  return async () => {
    const { claims: [claim] } = await call('claims', { worker, round: round + 1, wait: '20s' });
    round += 1;
    held.splice(0, held.length, claim.claim);
    return {
      number: claim.run.steps + 1,
      write: (what, body) => call(`claims/${claim.claim}/${what}`, body),
      /** Says what the silent agent waits for. */
      waitsOn: (text) => {
        waits[claim.claim] = text;
        return renew();
      },
    };
  };
}

test('the chat shows what an agent thinks, folded, until its message is there', async (t) => {
  const server = await open(t);
  const claim = await work(t, server);
  const client = new Mailroom(server);
  const { thread } = await client.send({ thread: 'thoughts', text: 'why?', agent: 'js' });
  const run = await claim();
  const person = await new Person(await openPage(t, context), server).enter(thread);
  await person.live();
  const thinking = person.page.locator('.thinking');
  await run.write('deltas', { channel: 'thinking', offset: 0, text: 'First I look <b>here</b>, ' });
  await thinking.getByText('Thinking').waitFor();
  assert.equal(await thinking.locator('p').isVisible(), false, 'thinking is open');
  await thinking.locator('summary').click();
  await run.write('deltas', { channel: 'thinking', offset: 26, text: 'then there.' });
  await thinking.getByText('First I look <b>here</b>, then there.').waitFor();
  await run.write('deltas', { offset: 0, text: 'Because' });
  await person.page.locator('.thinking + .assistant').getByText('Because').waitFor();
  await person.shot('chat-thinking');
  await run.write('settle', { number: run.number, outcome: 'complete', text: 'Because.' });
  await person.page.locator('.assistant .body').getByText('Because.').waitFor();
  await thinking.waitFor({ state: 'detached' });
});

test('the chat shows a tool call while its arguments are written, and how it ended', async (t) => {
  const server = await open(t);
  const claim = await work(t, server);
  const client = new Mailroom(server);
  const { thread, run: id } = await client.send({ thread: 'tools', text: 'tidy up', agent: 'js' });
  const run = await claim();
  const person = await new Person(await openPage(t, context), server).enter(thread);
  await person.live();
  const note = (text) => person.page.locator('.note', { hasText: text });
  const write = (offset, text) => run.write('deltas', { channel: 'tool', call: 'c1', name: 'write_file', offset, text });
  const first = '{"path": "<b>notes</b>.md", ';
  await write(0, first);
  await write(first.length, '"text": "one');
  await note(`write_file ${first}"text": "one`).waitFor();
  assert.equal(await note('write_file').getAttribute('data-progress'), 'live');
  await person.shot('chat-call');
  const calls = ['c1', 'c2', 'c3'].map((call) => ({ call, name: 'write_file', arguments: { path: `${call}.md` } }));
  await run.write('entries', {
    number: run.number,
    step: {
      entries: [
        ...calls.map((body) => ({ kind: 'tool.started', body })),
        { kind: 'tool.finished', body: { call: 'c2', ok: false, summary: 'the disk is full' } },
      ],
    },
  });
  await note('c1.md').and(person.page.locator('[data-progress="open"]')).waitFor();
  await note('the disk is full').and(person.page.locator('[data-progress="failed"]')).waitFor();
  assert.equal(await note('write_file').count(), 3, 'the call that was shown is that of the log');
  await run.write('settle', { number: run.number + 1, outcome: 'complete', text: 'Not all.' });
  await note('"c1.md" }, which did not end').and(person.page.locator('[data-progress="void"]')).waitFor();
  assert.equal((await client.run(id)).status, 'completed');
  await person.shot('chat-calls');
});

test('the chat and the console say what a silent agent waits for, until it goes on', async (t) => {
  const server = await open(t);
  const claim = await work(t, server);
  const client = new Mailroom(server);
  const { thread, run: id } = await client.send({ thread: 'silent', text: 'test it', agent: 'js' });
  const run = await claim();
  const person = await new Person(await openPage(t, context), server).enter(thread);
  await person.live();
  await run.waitsOn('tool call: cargo <b>test</b>');
  const doing = person.page.locator('#doing');
  await doing.getByText('js is working: tool call: cargo <b>test</b> (since ').waitFor();
  await person.page.reload();
  await doing.getByText('js is working: tool call: cargo <b>test</b> (since ').waitFor();
  const page = await openPage(t, context);
  await signIn(page, (await server.command('open')).trim());
  await page.evaluate((hash) => { location.hash = hash; }, `#/run/${id}`);
  await page.getByText('waits for tool call: cargo <b>test</b> since').waitFor();
  await shoot(page, 'run-waits');
  await run.write('deltas', { offset: 0, text: 'Green' });
  await person.see(() => document.querySelector('#doing').textContent === 'js is working');
});

test('the chat folds the reasoning that a message keeps, and names its files', async (t) => {
  const server = await open(t);
  const claim = await work(t, server);
  const client = new Mailroom(server);
  const { thread } = await client.send({ thread: 'parts', text: 'why?', agent: 'js' });
  const run = await claim();
  const person = await new Person(await openPage(t, context), server).enter(thread);
  await run.write('settle', {
    number: run.number, outcome: 'complete', message: { text: 'Because.', parts: [
      { type: 'reasoning', text: 'First <b>this</b>.' }, { type: 'file', uri: 'javascript:alert(1)', name: 'a.pdf' }] },
  });
  const answer = person.page.locator('.assistant .body');
  await answer.getByText('Because.').waitFor();
  const thought = answer.locator('.reasoning p');
  assert.equal(await thought.isVisible(), false, 'the reasoning is open');
  await answer.locator('summary').click();
  assert.equal(await thought.textContent(), 'First <b>this</b>.');
  assert.deepEqual(await answer.locator('.parts li').allTextContents(), ['File a.pdf']);
  assert.equal(await answer.locator('a').count(), 0, 'a file is a link');
});

test('a run that waits for its next try says why, in the list and on its page', async (t) => {
  const server = await open(t);
  const claim = await work(t, server);
  const client = new Mailroom(server);
  const { run: id } = await client.send({ thread: 'retries', text: 'go', agent: 'js' });
  const run = await claim();
  await run.write('settle', { number: run.number, outcome: 'fail', failure: { class: 'unavailable', message: 'the provider <b>is away</b>', retry_after: '10m' } });
  const page = await openPage(t, context);
  await signIn(page, (await server.command('open')).trim());
  await page.evaluate(() => { location.hash = '#/runs?q=class:unavailable'; });
  await page.getByText('retrying').waitFor();
  await page.getByText('the provider <b>is away</b>').waitFor();
  await page.getByText(/Next try in (9|10|11|12)m/).waitFor(); // the provider's 10 minutes and the spread after them
  await shoot(page, 'runs-retrying');
  await page.evaluate((hash) => { location.hash = hash; }, `#/run/${id}`);
  await page.getByText('The last attempt failed. Next try').waitFor();
  await page.getByLabel('Error of the last attempt').getByText('the provider <b>is away</b>').waitFor();
  await shoot(page, 'run-retrying');
  await page.getByRole('link', { name: 'Open the conversation' }).click();
  await page.locator('#who').getByText('admin', { exact: true }).waitFor();
  await page.getByRole('button', { name: 'Sign out' }).waitFor();
});
