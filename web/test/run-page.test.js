// The page of a run: its time as a waterfall, its log, two attempts beside each other, and the retry.

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';

import { open } from '../../clients/js/test/server.js';
import { work } from '../../clients/js/worker/index.js';
import { colorRules, violations } from './axe.js';
import { HOSTILE, operators } from './operator.js';
import { senderOf } from './sender.js';

const quiet = { debug() {}, info() {}, warn() {}, error() {} };

const pause = (ms) => new Promise((done) => { setTimeout(done, ms); });

const config = '[agents.echo]\nkind = "echo"\npace = "0s"\n[retry]\nfirst = "50ms"\n';

/** An agent that uses all that a run can have: its first attempt fails, its second one asks, its third one ends. */
async function build(s) {
  await s.tool.started('c1', 'read_file', { path: HOSTILE });
  await pause(30);
  await s.tool.finished('c1', { summary: `42 lines ${HOSTILE}`, output: 'x'.repeat(9000) });
  await s.memo('plan', async () => ({ steps: 3 }));
  await s.effect('reserve the host', async () => { await pause(40); return { host: 'b7' }; });
  await s.step({ name: 'prepared', usage: { output_tokens: 9 } });
  if (s.run.attempt === 1) {
    await s.tool.started('c2', 'bash', { command: 'make check' });
    throw new Error('the compiler ended');
  }
  await s.tool.started('c3', 'bash', { command: 'make check' });
  await pause(60);
  await s.tool.finished('c3', { ok: false, summary: 'exit 2' });
  const answer = await s.call('tests', { thread: 'tests-of-it', agent: 'echo', text: 'run **all** tests' });
  assert.equal(answer.status, 'completed');
  if (!await s.approval('deploy', { prompt: 'Deploy release 7?', action: 'deploy' })) throw new Error('denied');
  await s.write('Deployed.');
}

describe('the page of a run', () => {
  const { visit } = operators();

  async function arrive(t, handlers) {
    const server = await open(t, config);
    const worker = work(handlers, { url: server.url, token: server.token, log: quiet });
    t.after(() => worker.stop({ within: 0 }));
    await worker.ready;
    return { server, client: senderOf(server), operator: await visit(t, server) };
  }

  /** Takes screenshots of the open page at each width, and checks that it fits and breaks no rule of accessibility. */
  async function looks(operator, name) {
    const { page } = operator;
    for (const [width, colorScheme, rules] of [[390, 'light'], [390, 'dark', colorRules], [900, 'dark'], [1440, 'light'], [1440, 'dark', colorRules], [1920, 'light']]) {
      await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' });
      await page.setViewportSize({ width, height: 1000 });
      if (width === 390 || width === 1440) assert.deepEqual(await violations(page, rules), [], `${name} at ${width} in ${colorScheme}`);
      assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), `${name} is too wide at ${width}`);
      await operator.shot(`console-${name}-${width}-${colorScheme}`);
    }
    await page.setViewportSize({ width: 1440, height: 1000 });
  }

  const item = (page, name) => page.getByRole('treegrid').getByRole('row', { name });

  test('shows queue, attempts, steps, tools, effects, waits and children, live, and opens them with the keyboard', async (t) => {
    const { server, client, operator } = await arrive(t, { builder: build });
    const { run } = await client.send({ thread: 'build', text: 'build **it**', agent: 'builder' });
    for await (const { kind, entry } of client.follow({ run })) if (kind === 'entry' && ((entry.kind === 'ticket.opened' && entry.body.kind === 'approval') || entry.kind === 'run.failed')) break;
    await operator.enter(`run/${run}`);
    const { page } = operator;
    await page.getByRole('heading', { name: 'build it', exact: true }).waitFor();
    await item(page, /^Wait Waits: Approval: Deploy release 7/).or(item(page, /^Waits: Approval: Deploy release 7/)).waitFor();
    for (const name of [/^Queue, done/, /^Attempt 1, failed/, /^Tool read_file, done, took [\d.]+m?s/, /^Memo plan/, /^Effect reserve the host, done/, /^Step prepared/, /^Tool bash, outcome unknown, took ≤ [\d.]+m?s.*the log has no end of it: drawn to the end of its attempt/, /^Pause Waits for its next try/, /^Tool bash, failed/, /^Run run all tests, done/]) await item(page, name).first().waitFor(); // what it sent is read after its own entries
    assert.equal(await page.locator('main img').count(), 0, 'a text of an agent was HTML');
    const bars = await page.locator('.waterfall .bar').evaluateAll((all) => all.map((bar) => [bar.getBoundingClientRect(), bar.parentElement.getBoundingClientRect()].map(({ left, right }) => [left, right])));
    for (const [[left, right], [from, to]] of bars) assert.ok(right - left >= 3.9 && left >= from - 1 && right <= to + 5, `a bar from ${left} to ${right} in a track from ${from} to ${to}`);

    // The keyboard alone: to the child, open it, see its attempt, leave it.
    await page.keyboard.press('Escape');
    const first = page.locator('.item').first();
    await first.focus();
    const focused = () => page.evaluate(() => document.activeElement.getAttribute('aria-label'));
    for (let i = 0; i < 40 && !/^Run run all tests/.test(await focused()); i++) await page.keyboard.press('ArrowDown');
    assert.match(await focused(), /^Run run all tests/);
    await page.keyboard.press('Enter');
    const child = item(page, /^Run run all tests/);
    await page.locator('.item[aria-level="3"]').first().waitFor();
    assert.equal(await child.getAttribute('aria-expanded'), 'true');
    await page.keyboard.press('ArrowRight');
    assert.match(await focused(), /^Queue/);
    await page.keyboard.press('ArrowLeft');
    assert.match(await focused(), /^Run run all tests/);
    await page.keyboard.press('Enter'); // it is open: its details
    await page.locator('.about').getByText('tests-of-it').waitFor();
    assert.equal(await page.locator('.about').getByText('Show it in the log').count(), 1);
    await looks(operator, 'waterfall');
    await page.keyboard.press('ArrowLeft');
    assert.equal(await child.getAttribute('aria-expanded'), 'false');
    await page.keyboard.press('End');
    assert.match(await focused(), /Waits: Approval/);

    // The rest comes over the stream: rows that were there stay the same elements.
    await operator.live();
    await first.evaluate((node) => { node.dataset.stays = 'yes'; });
    await page.getByRole('button', { name: 'Approve' }).click();
    await item(page, /^Attempt 4, done|^Attempt 3, done/).waitFor();
    await item(page, /^Message Deployed\./).waitFor();
    assert.equal(await first.getAttribute('data-stays'), 'yes');
    await page.locator('.meta').getByText('completed').waitFor();
    await page.locator('.reply').getByText('Deployed.').waitFor();
    assert.ok(server);
  });

  test('has a log with words, a filter, a search, folds and JSON to copy', async (t) => {
    const { client, operator } = await arrive(t, { builder: async (s) => { await s.tool.started('c', 'look', { path: HOSTILE }); await s.tool.finished('c', { output: 'y'.repeat(9000) }); return HOSTILE; } });
    const { run } = await client.send({ thread: 'look', text: HOSTILE, agent: 'builder' });
    for await (const _ of client.follow({ run }));
    const { page } = operator;
    await page.context().grantPermissions(['clipboard-read', 'clipboard-write']);
    await operator.enter(`run/${run}`);
    const log = page.getByRole('region', { name: 'Log' });
    const rows = log.locator('.entries > li');
    await log.getByText('7 entries').waitFor();
    const words = await log.locator('.kind').allTextContents();
    assert.deepEqual(words, ['Message', 'Queued', 'Attempt started', 'Tool started', 'Tool finished', 'Message', 'Completed']);
    await log.getByLabel('Kind of entry').selectOption('tool.finished');
    await log.getByText('1 of 7 loaded entries').waitFor();
    assert.equal(await log.locator('pre').count(), 0, 'a folded entry has its body in the page');
    await rows.first().locator('summary').click();
    await log.getByRole('button', { name: /Show all 9,\d+ characters/ }).click();
    await log.getByRole('button', { name: 'Fold', exact: true }).waitFor();
    await log.getByRole('button', { name: 'Copy JSON' }).click();
    await log.getByText('Copied').waitFor();
    const copied = JSON.parse(await page.evaluate(() => navigator.clipboard.readText()));
    const { items } = await client.entries('look', { kind: 'tool.finished' });
    assert.deepEqual(copied, items[0]);
    await log.getByLabel('Kind of entry').selectOption('');
    await log.getByRole('searchbox', { name: 'Search in the loaded entries' }).fill('onerror');
    await log.getByText('4 of 7 loaded entries').waitFor();
    await log.getByRole('searchbox').fill('nothing has this');
    await log.getByText('No loaded entry matches.').waitFor();
    await item(page, /^Tool look/).click();
    await page.locator('.about').getByText('Show it in the log').click();
    await page.waitForFunction(() => document.activeElement?.closest('[data-kind="tool"][data-seq]'));
    await log.getByText('7 entries').waitFor();
    await operator.button('Unfold all').click();
    await page.waitForFunction(() => document.querySelectorAll('.entries pre').length === 7);
    assert.equal(await page.locator('main img').count(), 0);
    await looks(operator, 'runlog');
  });

  test('draws days of waiting narrow, says so, and shows the true scale and clocks that differ', async (t) => {
    const { client, operator } = await arrive(t, { builder: async (s) => {
      if (s.run.attempt > 1) return 'Done.';
      await s.tool.started('c', 'look', {});
      await pause(200);
      await s.tool.finished('c', {});
      throw new Error('later');
    } });
    const { run } = await client.send({ thread: 'days', text: 'wait', agent: 'builder' });
    for await (const _ of client.follow({ run }));
    const { page } = operator;
    const day = 86_400_000;
    const begin = Date.parse((await client.run(run)).created_at);
    const { items: [finished] } = await client.entries('days', { kind: 'tool.finished' });
    await page.route('**/v1/threads/days/entries?*', async (route) => { // as if all was quick, but for the tool and three days before the second attempt
      const response = await route.fetch();
      const body = await response.json();
      for (const entry of body.items) {
        const late = entry.kind === 'run.completed' ? -day : 0; // of a clock
        entry.at = new Date(begin + 10 * entry.seq + (entry.seq >= finished.seq ? 200 : 0) + (entry.attempt > 1 ? 3 * day : 0) + late).toISOString();
      }
      await route.fulfill({ response, json: body });
    });
    await operator.enter(`run/${run}`);
    await page.getByText('One part in which nothing ran (3d 0h) is drawn narrow').or(page.getByText('One part in which nothing ran (3d) is drawn narrow')).waitFor();
    await page.getByText('Servers had different clocks').waitFor();
    await page.locator('.tick[data-short]').getByText('// 3d').waitFor();
    await item(page, /^Attempt 2 \?, done|^Attempt 2, done, took \?/).waitFor(); // its length is unknown
    const width = (name) => item(page, name).locator('.bar').evaluate((bar) => bar.getBoundingClientRect().width);
    const tool = await width(/^Tool look/);
    assert.ok(tool > 100, `the tool is ${tool} pixels wide`);
    await looks(operator, 'days');
    await operator.button('True scale').click();
    await page.waitForFunction(() => !document.querySelector('.tick[data-short]'));
    assert.ok(await width(/^Tool look/) < 10);
    await operator.shot('console-days-true');
  });

  test('compares two attempts, and says what a retry keeps', async (t) => {
    let works = false;
    let calls = 0;
    const { client, operator } = await arrive(t, { builder: async (s) => {
      await s.effect('charge the card', async () => { calls += 1; return 1; });
      await s.tool.started('c', 'bash', {});
      await pause(s.run.attempt * 40);
      await s.tool.finished('c', { ok: works, summary: works ? 'fine' : 'exit 2' });
      if (s.run.attempt > 1) { await s.tool.started('d', 'cleanup', {}); await s.tool.finished('d'); }
      if (!works) throw new Error('the build failed');
      return 'Built.';
    } });
    const { run } = await client.send({ thread: 'twice', text: 'build', agent: 'builder', max_attempts: 2 });
    for await (const _ of client.follow({ run }));
    await operator.enter(`run/${run}`);
    const { page } = operator;
    await operator.button('Compare two attempts').click();
    const table = page.getByRole('region', { name: 'Steps and tools of two attempts' });
    assert.match(await table.getByRole('row', { name: /Tool bash/ }).textContent(), /failed.*exit 2.*failed.*exit 2.*([+−][\d.]+m?s|the same)/);
    assert.match(await table.getByRole('row', { name: /Tool cleanup/ }).textContent(), /–.*only in the second/);
    assert.match(await table.getByRole('row', { name: /charge the card/ }).textContent(), /recorded: not called again/);
    await looks(operator, 'attempts');

    await operator.button('Retry…').click();
    const dialog = page.getByRole('dialog', { name: 'Retry this run' });
    await dialog.getByText('1 recorded effect or memo: charge the card').waitFor();
    await dialog.getByText('A retry cannot begin at an earlier step').waitFor();
    for (const [colorScheme, rules] of [['light'], ['dark', colorRules]]) {
      await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' });
      assert.deepEqual(await violations(page, rules), [], `the dialog in ${colorScheme}`);
    }
    await operator.shot('console-retry');
    works = true;
    await dialog.getByRole('button', { name: 'Retry', exact: true }).click();
    await item(page, /^Attempt 3, done/).waitFor();
    assert.equal(calls, 1, 'a recorded effect was called again');

    works = false;
    const again = await client.send({ thread: 'twice', text: 'build', agent: 'builder', max_attempts: 1 });
    for await (const _ of client.follow({ run: again.run }));
    assert.equal(calls, 2);
    works = true;
    await operator.go(`run/${again.run}`);
    await operator.button('Retry…').click();
    await page.getByLabel('Start over').click();
    await dialog.getByText('Dropped:').waitFor();
    await dialog.getByRole('button', { name: 'Start over' }).click();
    await page.locator('.meta').getByText('completed').waitFor();
    assert.equal(calls, 3, 'a retry from the beginning kept the effect');
  });

  test('of 12,000 entries reads the begin and the end, and more when it is asked', async (t) => {
    const { client, operator } = await arrive(t, { builder: async (s) => {
      for (let i = 0; i < 60; i++) {
        const entries = Array.from({ length: 100 }, (_, j) => [{ kind: 'tool.started', body: { call: `c${i}.${j}`, name: `tool ${i}.${j}` } }, { kind: 'tool.finished', body: { call: `c${i}.${j}`, ok: true } }]).flat();
        for (let k = 0; k < entries.length; k += 50) await s.step({ entries: entries.slice(k, k + 50) });
      }
      return 'Done.';
    } });
    const { run } = await client.send({ thread: 'long', text: 'count', agent: 'builder' });
    for await (const _ of client.follow({ run }));
    const requests = [];
    operator.page.on('request', (request) => requests.push(request.url()));
    await operator.enter(`run/${run}`);
    const { page } = operator;
    await item(page, /^Attempt 1, done/).waitFor();
    await item(page, /^[\d,]+ more/).waitFor();
    const read = requests.filter((url) => url.includes('/entries'));
    assert.ok(read.length <= 8, `${read.length} requests for entries`);
    await page.getByText('The first and the last entries are loaded.').waitFor();
    assert.ok(await page.locator('.entries > li').count() <= 201 && await page.locator('.item').count() <= 110);
    await item(page, /^[\d,]+ more/).click();
    await page.waitForFunction(() => document.querySelectorAll('.item').length > 300);
    await operator.button('Newest first').click();
    await page.waitForFunction(() => document.querySelector('.entries .kind').textContent === 'Completed');
    const before = await page.locator('.log .count').textContent();
    await page.locator('.log').getByRole('button', { name: 'Load more' }).click();
    await page.waitForFunction((old) => document.querySelector('.log .count').textContent !== old, before);
    await operator.shot('console-waterfall-long');
  });

  test('the details of a run name its concurrency key', async (t) => {
    const { client, operator } = await arrive(t, { build });
    const { run } = await client.send({ thread: 'keyed', text: 'hello', agent: 'echo', concurrency_key: HOSTILE });
    await operator.enter(`run/${run}`);
    const key = operator.page.locator('.detail', { has: operator.page.locator('dt', { hasText: 'Concurrency key' }) });
    await key.getByText('<img src=x').waitFor({ timeout: 10_000 });
    assert.equal(await operator.page.locator('main img').count(), 0);
  });

  test('the details of a run name the branch of its worktree', async (t) => {
    const body = { branch: `mailroom/${HOSTILE}`, commits: 1, head: '0123456789abcdef', pushed: 'origin', left: 'a merge is under way', pointers: '"a.bin"' };
    const { client, operator } = await arrive(t, {
      async coder(s) {
        await s.step({ name: 'committed', entries: [{ kind: 'x.exec.tree', body }] });
        await s.write('Done.');
      },
    });
    const { run } = await client.send({ thread: 'in-a-tree', text: 'hello', agent: 'coder' });
    await operator.enter(`run/${run}`);
    const branch = operator.page.locator('.detail', { has: operator.page.locator('dt', { hasText: 'Branch' }) });
    await branch.getByText('1 commit, at 0123456789ab, pushed to origin; changes are left in the worktree: a merge is under way; files without their content: "a.bin"').waitFor({ timeout: 10_000 });
    await branch.getByText('<img src=x').waitFor({ timeout: 10_000 });
    assert.equal(await operator.page.locator('main img').count(), 0);
    await operator.shot('console-run-branch');
  });
});
