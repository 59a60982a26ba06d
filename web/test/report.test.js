import assert from 'node:assert/strict';
import { describe, test } from 'node:test';

import { work } from '../../clients/js/worker/index.js';
import { sinceOf } from '../console/since.js';
import { violations } from './axe.js';
import { HOSTILE, operators } from './operator.js';

test('a period begins at a time of the clock on the wall', () => {
  const now = new Date(2026, 0, 2, 8, 30);
  for (const [text, want] of [
    ['22:00', new Date(2026, 0, 1, 22)], ['08:30', now], ['08:31', new Date(2026, 0, 1, 8, 31)], ['', new Date(2026, 0, 1, 20, 30)],
    ['12h', new Date(2026, 0, 1, 20, 30)], ['168h', new Date(2025, 11, 26, 8, 30)], ['today', new Date(2026, 0, 2)], ['yesterday', new Date(2026, 0, 1)],
    ['2026-01-01T05:00:00Z', new Date('2026-01-01T05:00:00Z')], ['25:00', new Date(2026, 0, 1, 20, 30)], ['0h', new Date(2026, 0, 1, 20, 30)], ['noon', new Date(2026, 0, 1, 20, 30)],
  ]) assert.equal(sinceOf(text, now).valueOf(), want.valueOf(), text);
});

const kinds = {
  async coder(s) {
    if (s.text === 'fail') throw new Error(`3 of 40 tests failed ${HOSTILE}`);
    if (s.text === 'ask') return s.ask('what', { prompt: `Which branch? ${HOSTILE}` });
    const [branch, pushed, pull_request] = s.text.split(' ');
    await s.step({ name: 'committed', usage: { cost_usd: 0.25, input_tokens: 1200, output_tokens: 90 }, entries: [{ kind: 'x.exec.tree', body: { branch, base: '1', head: '0123456789abcdef', commits: 2, pushed, pull_request } }] });
    await s.write(`**Done** with ${branch}.`);
  },
};

describe('the report', () => {
  const { arrive } = operators();

  test('says what agents did in a night, and finds a period and an agent again', async (t) => {
    const { client, server, operator } = await arrive(t);
    const { page } = operator;
    await operator.enter('report');
    await page.getByText('Nothing happened in this time').waitFor();
    assert.deepEqual(await violations(page), []);

    const worker = work(kinds, { url: server.url, token: server.token, log: { debug() {}, info() {}, warn() {}, error() {} } });
    t.after(() => worker.stop({ within: 1_000 }));
    await worker.ready;
    const texts = ['mailroom/cart', 'mailroom/login origin', 'mailroom/search origin https://git.example/shop/pull/12', 'mailroom/evil origin javascript:alert(1)', `\u202e${'x'.repeat(300)} origin`, 'fail', 'ask'];
    for (const [i, text] of texts.entries()) {
      const { run } = await client.send({ thread: i === 0 ? "it's $(x)" : `task-${i}`, text, agent: 'coder', max_attempts: 1 });
      for await (const _ of client.follow({ run, until: 'waiting' }));
    }
    await client.pauseAgent('echo', { reason: 'the provider is away' });
    await operator.button('Refresh').click();
    const branches = page.getByRole('list', { name: 'Branches' });
    await branches.getByRole('link', { name: 'mailroom/search #12' }).waitFor();
    assert.equal(await branches.getByRole('link', { name: 'mailroom/search #12' }).getAttribute('href'), 'https://git.example/shop/pull/12');
    assert.match(await branches.getByRole('link', { name: 'mailroom/evil' }).getAttribute('href'), /^#\/run\//);
    assert.match(await branches.getByRole('listitem').first().innerText(), /not pushed[^]*mailroom\/cart[^]*mailroom worktrees patch 'it'\\''s \$\(x\)'/);
    assert.match(await page.getByRole('list', { name: 'Sums' }).innerText(), /5\s*done\s*1\s*failed[^]*5\s*branches to review/);
    await page.getByRole('list', { name: 'Agents' }).getByText('3 of 40 tests failed').waitFor();
    await page.getByRole('list', { name: 'Agents' }).getByText('the provider is away').waitFor();
    assert.equal(await page.locator('main img').count(), 0);
    for (const [width, height] of [[1280, 1300], [390, 2400]]) {
      for (const colorScheme of ['light', 'dark']) {
        await page.emulateMedia({ colorScheme });
        await page.setViewportSize({ width, height });
        assert.deepEqual(await violations(page), []);
        assert.equal(await page.evaluate(() => document.documentElement.scrollWidth > innerWidth), false, `${width} is too narrow`);
        await operator.shot(`report-${width}-${colorScheme}`);
      }
    }
    await page.getByRole('list', { name: 'Questions' }).getByRole('link', { name: /Which branch/ }).click();
    await page.waitForURL((url) => url.hash.startsWith('#/inbox'));

    await page.keyboard.press('g');
    await page.keyboard.press('p');
    await page.getByRole('button', { name: 'Since yesterday' }).click();
    await page.waitForURL((url) => url.hash === '#/report?since=yesterday');
    await operator.go('report?since=today&agent=other');
    await page.getByText('Nothing happened in this time').waitFor();
    await page.getByRole('button', { name: 'Only other' }).click();
    await page.waitForURL((url) => url.hash === '#/report?since=today');

    // Threads that were too many to look up are named without a branch, too.
    await page.route('**/v1/report?*', async (route) => {
      const response = await route.fetch();
      await route.fulfill({ response, json: { ...await response.json(), branches: [], more_threads: 20 } });
    });
    await operator.button('Refresh').click();
    await page.getByText('the branches of 20 others were not looked up').waitFor();
    assert.equal(await page.getByRole('list', { name: 'Branches' }).count(), 0);
  });

  test('says what the platform says of pull requests, and why there is none', async (t) => {
    const { operator } = await arrive(t);
    const { page } = operator;
    const at = new Date(Date.now() - 3 * 3_600_000).toISOString();
    const opened = (number, more) => ({ pull_request: `https://git.example/shop/pull/${number}`, number, state_at: at, ...more });
    const branches = Object.entries({
      'it\'s': { unopened: `503 Away ${HOSTILE}`, again: true },
      refused: { unopened: 'the token may not open it' },
      merged: opened(1, { state: 'merged' }),
      closed: opened(2, { state: 'closed' }),
      goes_on: opened(6, { state: 'merged', trouble: 'its branch has newer commits, which are not in it' }),
      conflict: opened(3, { state: 'open', trouble: 'it conflicts with its base' }),
      stale: opened(4, { state: 'open', unread: '502 Away' }),
      unknown: opened(5, { state_at: null, unread: '502 Away' }),
    }).map(([thread, more]) => ({ thread, run: 'r', agent: 'coder', branch: `mailroom/${thread}`, base: '1', head: '2', commits: 1, at, pushed: 'origin', unpushed: '', pull_request: '', number: 0, unopened: '', again: false, state: '', state_at: null, trouble: '', unread: '', left: '', ...more }));
    await page.route('**/v1/report?*', async (route) => {
      const response = await route.fetch();
      await route.fulfill({ response, json: { ...await response.json(), branches } });
    });
    await operator.enter('report');
    const rows = page.getByRole('list', { name: 'Branches' }).getByRole('listitem');
    await rows.last().waitFor();
    const texts = await rows.allInnerTexts();
    for (const [i, want] of [
      /^pushed[^]*; no pull request yet, the server tries again: 503 Away[^]*; try now: mailroom publish 'it'\\''s'/,
      /^pushed[^]*; no pull request: the token may not open it; try now: mailroom publish refused/,
      /^merged[^]*mailroom\/merged #1/, /^closed[^]*mailroom\/closed #2/,
      /^merged[^]*#6[^]*; its branch has newer commits, which are not in it/,
      /^pull request[^]*#3[^]*; it is open, and it conflicts with its base/,
      /^pull request[^]*#4[^]*; a later look at its state failed: 502 Away; open as of 3\s?h/,
      /^pull request[^]*#5[^]*; a later look at its state failed: 502 Away$/,
    ].entries()) assert.match(texts[i], want);
    assert.deepEqual(await violations(page), []);
    await page.setViewportSize({ width: 390, height: 1600 });
    assert.equal(await page.evaluate(() => document.documentElement.scrollWidth > innerWidth), false);
    await operator.shot('report-pulls');
  });
});
