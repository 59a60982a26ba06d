// The manual: the pages of docs/ at /docs/.

import assert from 'node:assert/strict';
import { mkdir } from 'node:fs/promises';
import { after, before, describe, test } from 'node:test';

import { open } from '../../clients/js/test/server.js';
import { Index } from '../docs/rank.js';
import { colorRules, violations } from './axe.js';
import { launch, openPage } from './browser.js';
import { shoot, shots } from './person.js';

/** Questions that newcomers had, in their words, and the pages that may answer: one of the first three results is one of them. */
const questions = [
  ['first minute with claude', 'learn/approve-from-phone', 'faq'],
  ['my program keeps a session MAILROOM_THREAD', 'learn/write-an-agent', 'agents', 'faq'],
  ['exit codes of a command', 'agents', 'reference/commands', 'faq'],
  ['what does a tool of a worker look like', 'faq', 'reference/events', 'workers', 'learn/write-an-agent'],
  ['write an agent in python', 'learn/write-an-agent'],
  ['run as a systemd service', 'faq', 'operations', 'guides/service'],
  ['nginx example', 'guides/behind-a-proxy'],
  ['how to update to a new version', 'guides/upgrade'],
  ['does it run on windows or mac', 'faq'],
  ['how much memory does one server need', 'faq', 'guides/many-agents', 'benchmarks'],
  ['cost of an idle thread', 'faq'],
  ['difference between steer and interrupt', 'concepts/modes', 'faq'],
  ['filter syntax', 'reference/filters'],
  ['events of the stream', 'reference/events'],
  ['prometheus metrics', 'reference/metrics', 'faq', 'operations'],
  ['approve on my phone', 'learn/approve-from-phone'],
  ['two agents edit the same file', 'learn/share-a-repository', 'tracker'],
  ['move from sqlite to postgres', 'guides/postgresql'],
  ['maximum message size', 'reference/limits'],
  ['schedule a run for later', 'faq', 'guides/schedules'],
  ['limit spending', 'faq', 'guides/many-agents'],
  ['backup and restore', 'guides/backup'],
];

describe('the manual', () => {
  let context;
  let close;
  before(async () => {
    await mkdir(shots, { recursive: true });
    [context, close] = await launch({ reducedMotion: 'reduce' });
  });
  after(() => close());

  /** Opens a page of the manual, and collects the addresses that it loads. */
  async function visit(t, path = '', within = context) {
    const server = await open(t);
    const page = await openPage(t, within);
    const loaded = [];
    page.on('request', (request) => loaded.push(request.url()));
    await page.goto(`${server.url}/docs/${path}`);
    return { server, page, loaded };
  }

  /** Waits until a page has this title. A press of a link or a key may return before the page is left. */
  const titled = (page, name) => page.getByRole('heading', { level: 1, name, exact: true }).waitFor();

  test('is accessible and fits at three widths and in two schemes', async (t) => {
    const { server, page } = await visit(t);
    for (const path of ['', 'learn/write-an-agent.html', 'operations.html', 'channels/telegram.html', 'design.html', 'contents.html']) {
      await page.goto(`${server.url}/docs/${path}`);
      const name = path.replace('.html', '').replace('/', '-') || 'index';
      for (const [width, colorScheme, rules] of [[390, 'dark'], [390, 'light', colorRules], [900, 'light'], [1440, 'light'], [1440, 'dark', colorRules], [1920, 'light']]) {
        await page.emulateMedia({ colorScheme });
        await page.setViewportSize({ width, height: 900 });
        if (width === 390 || width === 1440) assert.deepEqual(await violations(page, rules), [], `${path} at ${width} in ${colorScheme}`);
        const beyond = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
        assert.ok(beyond <= 0, `${path} at ${width} is ${beyond} pixels too wide`);
        await shoot(page, `manual-${name}-${width}-${colorScheme}`);
      }
    }
  });

  test('is whole without scripts, and loads nothing from another host', async (t) => {
    const [plain, end] = await launch({ javaScriptEnabled: false, viewport: { width: 390, height: 800 } });
    const { server, page, loaded } = await visit(t, 'learn/write-an-agent.html', plain);
    t.after(end);
    for (const name of ['Python', 'JavaScript', 'Go']) await page.locator('.tabs').first().getByText(name, { exact: true }).waitFor();
    assert.equal(await page.getByRole('combobox').count(), 0);
    await page.getByRole('link', { name: 'Pages', exact: true }).click();
    await shoot(page, 'manual-pages-390');
    await page.getByRole('navigation', { name: 'Pages' }).getByRole('link', { name: 'Thread', exact: true }).click();
    await titled(page, 'Thread');
    await page.getByRole('link', { name: /^Next/ }).click();
    await titled(page, 'Run');
    await page.goto(`${server.url}/docs`);
    await titled(page, 'What Mailroom is');
    assert.equal(page.url(), `${server.url}/docs/`);
    assert.ok(loaded.length > 10, `${loaded.length} files`);
    assert.deepEqual(loaded.filter((url) => !url.startsWith(`${server.url}/`)), []);
  });

  test('finds a section with the keyboard alone', async (t) => {
    const { server, page, loaded } = await visit(t, 'concepts/thread.html');
    assert.ok(!loaded.some((url) => url.endsWith('search.json')), 'the index is loaded before anyone searches');
    await page.keyboard.press('/');
    const field = page.getByRole('combobox', { name: 'Search the manual' });
    assert.equal(await field.evaluate((node) => node === document.activeElement), true);
    await page.keyboard.type('filter syntax');
    const options = page.getByRole('option');
    await options.filter({ hasText: 'Filters' }).first().waitFor();
    assert.deepEqual(await violations(page), []);
    await shoot(page, 'manual-search');
    const active = () => page.locator('[aria-selected="true"]').getAttribute('id');
    assert.equal(await active(), 'result-0');
    await page.keyboard.press('ArrowDown');
    assert.equal(await active(), 'result-1');
    assert.equal(await field.getAttribute('aria-activedescendant'), 'result-1');
    await page.keyboard.press('ArrowUp');
    await page.keyboard.press('ArrowUp');
    assert.equal(await active(), `result-${await options.count() - 1}`);
    await page.keyboard.press('Escape');
    assert.equal(await options.count(), 0);
    assert.equal(await field.inputValue(), '');
    await page.keyboard.type('filter syntax');
    await options.first().waitFor();
    await page.keyboard.press('Enter');
    await page.waitForURL(`${server.url}/docs/reference/filters.html*`);
    await titled(page, 'Filters');
  });

  test('answers the questions of newcomers in the first three results', async (t) => {
    const server = await open(t);
    const index = new Index(await (await fetch(`${server.url}/docs/search.json`)).json());
    const missed = questions.flatMap(([question, ...right]) => {
      const found = index.search(question).slice(0, 3).map(({ page }) => page.replace('.html', ''));
      return found.some((page) => right.includes(page)) ? [] : [`${question}: ${found.join(', ')}`];
    });
    assert.deepEqual(missed, []);
  });

  test('shows the code of one language, copies it, and keeps the choice', async (t) => {
    const { page } = await visit(t, 'learn/write-an-agent.html');
    await context.grantPermissions(['clipboard-read', 'clipboard-write']);
    const first = page.locator('.tabs').first();
    const shown = () => first.locator('.name:visible').evaluateAll((all) => all.length);
    await first.getByRole('tab', { name: 'Python', selected: true }).waitFor();
    assert.equal(await first.locator('.code:visible').count(), 1);
    assert.equal(await shown(), 0, 'the name is shown twice');
    await first.getByRole('tab', { name: 'Python' }).focus();
    await page.keyboard.press('ArrowRight');
    await first.getByRole('tab', { name: 'JavaScript', selected: true }).waitFor();
    await page.locator('.tabs').nth(1).getByRole('tab', { name: 'JavaScript', selected: true }).waitFor();
    await first.locator('.code:visible').hover();
    await first.locator('.code:visible').getByRole('button', { name: 'Copy' }).click();
    await first.getByRole('button', { name: 'Copied' }).waitFor();
    assert.match(await page.evaluate(() => navigator.clipboard.readText()), /mailroom\/worker/);
    await page.reload();
    await first.getByRole('tab', { name: 'JavaScript', selected: true }).waitFor();
  });

  test('shows where the reader is, and prints without its frame', async (t) => {
    const { page } = await visit(t, 'operations.html');
    await page.setViewportSize({ width: 1440, height: 900 });
    const second = page.locator('article h2').nth(4);
    await second.evaluate((node) => node.scrollIntoView());
    await page.locator('.toc [aria-current]', { hasText: await second.textContent() }).waitFor();
    await page.locator('#pages [aria-current="page"]', { hasText: 'Operation' }).waitFor();
    await page.emulateMedia({ media: 'print' });
    for (const part of ['.bar', '#pages', '.toc', '.turn']) assert.equal(await page.locator(part).isVisible(), false, part);
    assert.equal(await page.locator('article').isVisible(), true);
  });
});
