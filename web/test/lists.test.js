// Lists of the console: what a row says, which columns it has, and what is done with selected rows.

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';

import { open } from '../../clients/js/test/server.js';
import { work } from '../../clients/js/worker/index.js';
import { violations } from './axe.js';
import { config, HOSTILE, operators } from './operator.js';
import { senderOf } from './sender.js';

const RELEASE = '## Deploy **release 7**\n\n- run `make check`\n- then [tell us](https://example.com/a) how the *first hour* went, with all that was slower than in the release before';

const quiet = { debug() {}, info() {}, warn() {}, error() {} };

describe('a list of the console', () => {
  const { visit } = operators();

  /** A server with runs in all states, of agents that reply, ask, fail and report their cost. */
  async function arrive(t) {
    const server = await open(t, config);
    const client = senderOf(server);
    const worker = work({ coder: async (run) => {
      await run.step({ usage: { input_tokens: 12_000, output_tokens: 345, cost_usd: 0.0712 } });
      return '## Result\n\nAll **372** checks pass.';
    } }, { url: server.url, token: server.token, log: quiet });
    t.after(() => worker.stop({ within: 0 }));
    await worker.ready;
    const send = (thread, text, agent, more) => client.send({ thread, text, agent, ...more });
    const runs = {
      hostile: await send('hostile', HOSTILE), failed: await send('fails', 'Make a **backup** of `prod`', 'broken', { max_attempts: 1 }),
      cancelled: await send('gone', 'Never mind', 'echo', { not_before: '2099-01-01T00:00:00Z' }), asked: await send('asks', 'show me', 'tour'),
      queued: await send('asks', '> And after that?', 'tour'), done: await send('release', RELEASE, 'coder'),
    };
    await client.cancel(runs.cancelled.run);
    for (const { run } of [runs.hostile, runs.failed, runs.done]) for await (const _ of client.follow({ run }));
    for await (const _ of client.follow({ run: runs.asked.run, until: 'waiting' }));
    return { server, client, runs, operator: await visit(t, server) };
  }

  test('a row of a run says what was asked, and is one link', async (t) => {
    const { operator, runs } = await arrive(t);
    const { page } = operator;
    await page.setViewportSize({ width: 1440, height: 800 });
    await operator.enter('runs');
    const row = page.locator(`.row[data-id="${runs.done.run}"]`);
    await row.getByText('Deploy release 7 run make check then tell us how').waitFor();
    const cell = (name) => row.locator(`[data-column="${name}"]`).innerText();
    assert.deepEqual([await cell('agent'), await cell('status'), await cell('sender'), await cell('attempts'), await cell('cost')], ['coder', 'completed', 'admin', '1', '$0.0712']);
    assert.equal(await page.locator('[data-column="tokens"]').count(), 0);
    for (const [run, note] of [[runs.failed, /no route to the host/], [runs.queued, /^Waits for a decision/]]) assert.match(await page.locator(`.row[data-id="${run.run}"] .note`).innerText(), note);
    const text = await page.locator('.rows').innerText();
    assert.doesNotMatch(text, /\*\*|`|##|\]\(|372/, 'Markdown, or a reply, is in the list');
    for (const each of await page.locator('.row').all()) assert.equal(await each.locator('a').count(), 1);
    const { width, height } = await row.boundingBox();
    await row.click({ position: { x: width - 20, y: height - 5 } });
    await page.waitForFunction((id) => location.hash === `#/run/${id}`, runs.done.run);
  });

  test('columns are chosen, and the choice is kept', async (t) => {
    const { operator } = await arrive(t);
    const { page } = operator;
    const names = async () => (await page.locator('.rows .head [role="columnheader"]').allInnerTexts()).map((name) => name.trim()).filter(Boolean);
    const usual = ['Message', 'Agent', 'Status', 'Created', 'Took'];
    await operator.enter('runs');
    assert.deepEqual(await names(), usual);
    await operator.button('Columns…').click();
    await page.getByRole('checkbox', { name: 'Tokens', exact: true }).check();
    await page.getByRole('checkbox', { name: 'Took', exact: true }).uncheck();
    await operator.button('Close').click();
    const chosen = ['Message', 'Agent', 'Status', 'Created', 'Tokens'];
    assert.deepEqual(await names(), chosen);
    await page.reload();
    await page.locator('.row [data-column="tokens"]').getByText('12.3K').waitFor();
    assert.deepEqual(await names(), chosen);
    await page.setViewportSize({ width: 1920, height: 900 });
    await page.locator('.head').getByText('Cost').waitFor();
    assert.ok(!(await names()).includes('Took'), 'the choice is of one width only');
    await page.setViewportSize({ width: 1200, height: 800 });
    await operator.button('Columns…').click();
    await operator.button('Defaults').click();
    await operator.button('Close').click();
    assert.deepEqual(await names(), usual);
  });

  test('rows are reached and selected with keys, and the selected runs are retried and cancelled', async (t) => {
    const { operator, client, runs } = await arrive(t);
    const { page } = operator;
    await operator.enter('runs');
    await page.locator('.row').first().waitFor();
    const focused = () => page.evaluate(() => document.activeElement.closest('.row')?.dataset.id);
    const newest = await page.locator('.row').evaluateAll((rows) => rows.map((row) => row.dataset.id));
    await page.keyboard.press('j');
    assert.equal(await focused(), newest[0]);
    await page.keyboard.press('j');
    await page.keyboard.press('j');
    await page.keyboard.press('k');
    assert.equal(await focused(), newest[1]);
    const choose = async (id) => {
      for (let n = 0; n < newest.length && await focused() !== id; n++) await page.keyboard.press(newest.indexOf(id) > newest.indexOf(await focused()) ? 'j' : 'k');
      await page.keyboard.press('x');
    };
    const offered = async () => (await page.locator('.tools > button').allInnerTexts()).filter((name) => /^(Retry|Cancel)/.test(name));
    await page.evaluate(() => { // faster than the page is drawn
      for (const key of 'xjx') document.activeElement.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true }));
    });
    await page.getByText('2 selected').waitFor();
    await operator.button('Clear').click();
    await choose(runs.done.run);
    await page.getByText('1 selected').waitFor();
    assert.deepEqual(await offered(), [], 'a completed run can be changed');
    await choose(runs.failed.run);
    await page.getByText('2 selected').waitFor();
    assert.deepEqual(await offered(), ['Retry 1…']);
    await choose(runs.queued.run);
    await choose(runs.cancelled.run);
    await page.getByText('4 selected').waitFor();
    assert.deepEqual(await offered(), ['Retry 2…', 'Cancel 1…']);
    await operator.button('Cancel 1…').click();
    await page.getByText('1 of 4 selected runs is queued, running or waiting.').waitFor();
    await operator.button('Cancel 1 run').click();
    await page.getByText('1 of 1 cancelled.').waitFor();
    await operator.button('Close').click();
    assert.equal((await client.run(runs.queued.run)).status, 'cancelled');
    await operator.button('Retry 3…').click(); // the one that was cancelled, too
    await page.getByText('3 of 4 selected runs are failed or cancelled.').waitFor();
    await operator.button('Retry 3 runs').click();
    await page.getByText('3 of 3 retried.').waitFor();
    await operator.button('Close').click();
    for (const { run } of [runs.failed, runs.cancelled]) assert.ok(!['cancelled'].includes((await client.run(run)).status));
    await operator.button('Clear').click();
    await page.locator('.count').getByText(/^\d+ runs$/).waitFor();
    for (const [chip, names] of [['Failed', ['Retry…']], ['Cancelled', ['Retry…']], ['Queued', ['Cancel…']], ['Completed', []]]) {
      await operator.button(chip).click();
      await page.locator(`.chip[aria-pressed="true"]`).getByText(chip).waitFor();
      await page.waitForFunction(({ chosen, wanted }) => { // at one moment: the runs that were retried go on, and an empty list offers nothing
        const shown = [...document.querySelectorAll('.tools > button')].map((button) => button.textContent.trim()).filter((name) => /^(Retry|Cancel)/.test(name));
        const rows = document.querySelectorAll('main .row').length;
        const current = document.querySelector('.chip[aria-pressed="true"]').textContent.includes(chosen);
        return current && (rows > 0 || document.querySelector('main .empty')) && shown.join() === (rows > 0 ? wanted.join() : '');
      }, { chosen: chip, wanted: names });
    }
    await operator.go('runs?q=thread:none');
    await page.getByText('No runs match').waitFor();
    assert.deepEqual(await offered(), [], 'an empty list');
    assert.equal(await operator.button('Columns…').count(), 0);
  });

  test('a thread says what was asked last', async (t) => {
    const { operator } = await arrive(t);
    const { page } = operator;
    await operator.enter('threads');
    await page.getByRole('link', { name: 'Make a backup of prod', exact: true }).waitFor();
    await page.locator('.row', { hasText: 'Make a backup of prod' }).getByText('fails', { exact: true }).waitFor();
    assert.doesNotMatch(await page.locator('.rows').innerText(), /\*\*|`|##/);
    await page.keyboard.press('j');
    assert.equal(await page.evaluate(() => document.activeElement.className), 'title');
    assert.equal(await page.locator('.rows input').count(), 0);
  });

  test('lists are accessible, with room for a finger', async (t) => {
    const { operator } = await arrive(t);
    const { page } = operator;
    await operator.enter();
    for (const [colorScheme, width] of [['dark', 390], ['light', 900], ['light', 1440], ['light', 1920]]) {
      await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' });
      await page.setViewportSize({ width, height: 844 });
      for (const route of ['runs', 'runs?q=status:failed', 'threads']) {
        await operator.go('inbox'); // the rows of a new page
        await operator.go(route);
        await page.locator('.row').first().waitFor();
        assert.deepEqual(await violations(page), [], `${route} at ${width}`);
        assert.ok(await page.evaluate(() => document.documentElement.scrollWidth - innerWidth) <= 0, `${route} is too wide at ${width}`);
        if (width === 390) {
          const small = await page.evaluate(() => [...document.querySelectorAll('main :is(button, input[type="search"], label, .row)')].map((node) => ({ name: node.textContent, ...node.getBoundingClientRect().toJSON() })).filter(({ width: w, height: h }) => w > 0 && Math.min(w, h) < 44));
          assert.deepEqual(small, [], `small targets of ${route}`);
        }
        await operator.shot(`lists-${route.split('?').length > 1 ? 'failed' : route}-${width}-${colorScheme}`);
      }
      if (width !== 390) continue;
      await operator.go('runs');
      const title = page.locator('.title', { hasText: 'Deploy release 7' });
      await title.waitFor();
      const lines = await title.evaluate((node) => node.getBoundingClientRect().height / parseFloat(getComputedStyle(node).lineHeight));
      assert.equal(Math.round(lines), 2, 'a long message has another number of lines');
      await page.locator('.row .pick input').first().check();
      await page.getByText('1 selected').waitFor();
      await operator.shot(`lists-selected-${width}-${colorScheme}`);
      await operator.button('Columns…').click();
      await page.getByRole('heading', { name: 'Columns' }).waitFor();
      assert.deepEqual(await violations(page), [], 'choice of columns');
      await operator.shot(`lists-columns-${width}-${colorScheme}`);
      await operator.button('Close').click();
      await operator.button('Clear').click();
    }
  });

  test('has no frame without rows, and a phone reaches the buttons of a table', async (t) => {
    const { operator } = await arrive(t);
    const { page } = operator;
    await operator.enter('runs?q=agent%3Anobody');
    await page.setViewportSize({ width: 390, height: 844 });
    await page.getByText('No runs match').waitFor();
    assert.equal(await page.locator('.rows').isVisible(), false, 'an empty table is below the words');
    await operator.go('search');
    await page.getByText('Search all messages').waitFor();
    await operator.go('channels');
    await page.locator('.card', { hasText: 'desk' }).getByText('reconnecting').waitFor();
    assert.equal(await page.getByText('connection refused').count(), 1, 'an error is shown once');
    await operator.go('tokens');
    const revoke = page.getByRole('button', { name: /^Revoke/ }).first();
    await revoke.waitFor();
    const { x, width } = await revoke.boundingBox();
    assert.ok(x >= 0 && x + width <= 390, `Revoke ends at ${x + width}`);
    assert.deepEqual(await violations(page), []);
  });
});
