// The API reference: /openapi.json as a page.

import assert from 'node:assert/strict';
import { mkdir } from 'node:fs/promises';
import { after, before, describe, test } from 'node:test';

import { open } from '../../clients/js/test/server.js';
import { violations } from './axe.js';
import { launch, openPage } from './browser.js';
import { Person, shoot, shots } from './person.js';

describe('the API reference', () => {
  let context;
  let close;
  before(async () => {
    await mkdir(shots, { recursive: true });
    [context, close] = await launch({ reducedMotion: 'reduce' });
  });
  after(() => close());

  /** Opens the page, and collects the addresses that it loads. */
  async function visit(t, { within = context, hash = '' } = {}) {
    const server = await open(t);
    const page = await openPage(t, within);
    const loaded = [];
    page.on('request', (request) => loaded.push(request.url()));
    await page.goto(`${server.url}/docs/api${hash}`);
    return { server, page, loaded };
  }

  // The page has some ten thousand nodes, for which the rules take seconds. All rules run in one
  // scheme where the list of operations is above it, and in the other where it is beside it.
  test('is accessible and fits at three widths and in two schemes', async (t) => {
    const { page } = await visit(t);
    for (const details of await page.locator('#submit details, #get-run details').all()) await details.evaluate((node) => { node.open = true; });
    for (const [width, colorScheme] of [[390, 'light'], [900, 'light'], [1440, 'dark']]) {
      await page.emulateMedia({ colorScheme });
      await page.setViewportSize({ width, height: 900 });
      if (width !== 900) assert.deepEqual(await violations(page), [], `${width} in ${colorScheme}`);
      const beyond = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      assert.ok(beyond <= 0, `at ${width} it is ${beyond} pixels too wide`);
      for (const [name, anchor] of [['top', 'main'], ['operation', 'submit'], ['objects', 'object-Run'], ['stream', 'stream-run'], ['refusals', 'refusals']]) {
        await page.evaluate((id) => document.getElementById(id).scrollIntoView(), anchor);
        await shoot(page, `docs-${name}-${width}-${colorScheme}`);
      }
    }
  });

  test('has every operation, parameter and object that the description has, and loads nothing from another host', async (t) => {
    const { server, page, loaded } = await visit(t);
    const described = await (await fetch(`${server.url}/openapi.json`)).json();
    const missing = await page.evaluate(({ paths }) => Object.entries(paths).flatMap(([path, methods]) => Object.entries(methods).flatMap(([method, op]) => {
      const section = document.getElementById(op.operationId);
      const route = section?.querySelector('.route')?.textContent ?? '';
      if (!route.includes(`${method.toUpperCase()} ${path}`)) return [op.operationId];
      const names = [...section.querySelectorAll('tbody th > code')].map((code) => code.textContent);
      return (op.parameters ?? []).filter(({ name }) => !names.includes(name)).map(({ name }) => `${op.operationId} ${name}`);
    })), described);
    assert.deepEqual(missing, []);
    assert.ok(await page.locator('article[id]').count() > 80);
    const lost = await page.evaluate(() => [...document.querySelectorAll('a[href^="#"]')].map((link) => link.getAttribute('href').slice(1)).filter((id) => !document.getElementById(id)));
    assert.deepEqual(lost, [], 'links to sections that do not exist');
    assert.ok(loaded.length >= 4, `${loaded.length} files`);
    assert.deepEqual(loaded.filter((url) => !url.startsWith(`${server.url}/`)), []);
  });

  test('is whole without scripts', async (t) => {
    const [plain, end] = await launch({ javaScriptEnabled: false });
    const { page } = await visit(t, { within: plain, hash: '#decide' });
    t.after(end);
    await page.locator('#decide').getByText('Makes the decision that the run waits for').waitFor();
    await page.locator('#decide summary').first().click();
    await page.locator('#decide details[open] pre').first().waitFor();
    assert.equal(await page.getByRole('searchbox').count(), 0);
  });

  test('finds operations with the keyboard, and a link to a hidden one shows all again', async (t) => {
    const { page } = await visit(t);
    const shown = () => page.locator('article:visible h3').allTextContents();
    const all = (await shown()).length;
    await page.keyboard.press('/');
    await page.keyboard.type('cancel runs');
    await page.locator('#submit').waitFor({ state: 'hidden' });
    assert.ok((await shown()).includes('cancel-runs') && (await shown()).length < 12, String(await shown()));
    await page.getByRole('status').getByText(` of ${all}`).waitFor();
    await page.keyboard.press('Escape');
    await page.locator('#submit').waitFor();
    assert.equal((await shown()).length, all);
    await page.keyboard.type('cancel runs');
    await page.evaluate(() => { location.hash = '#submit'; });
    await page.locator('#submit h3').waitFor();
    await page.locator('nav [aria-current]', { hasText: /^submit$/ }).waitFor();
    await page.goto(page.url().replace('#submit', '')); // after a reload, the headless shell begins at the link's target
    await page.keyboard.press('Tab');
    assert.equal(await page.evaluate(() => document.activeElement?.className), 'skip');
  });

  test('is reached from the chat', async (t) => {
    const server = await open(t);
    const { page } = await new Person(await openPage(t, context), server).enter();
    await page.getByRole('link', { name: 'API reference' }).click();
    await page.getByRole('heading', { name: 'API reference', level: 1 }).waitFor();
  });
});
