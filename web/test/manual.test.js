// The manual: the pages of docs/ at /docs/.

import assert from 'node:assert/strict';
import { mkdir } from 'node:fs/promises';
import { after, before, describe, test } from 'node:test';

import { open } from '../../clients/js/test/server.js';
import { Index } from '../docs/rank.js';
import { violations } from './axe.js';
import { launch, openPage } from './browser.js';
import { shots } from './person.js';

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

  const title = (page) => page.getByRole('heading', { level: 1 }).textContent();

  test('is accessible and fits at three widths and in two schemes', async (t) => {
    const { server, page } = await visit(t);
    for (const path of ['', 'learn/write-an-agent.html', 'operations.html', 'channels/telegram.html', 'design.html', 'contents.html']) {
      await page.goto(`${server.url}/docs/${path}`);
      const name = path.replace('.html', '').replace('/', '-') || 'index';
      for (const [width, colorScheme] of [[390, 'dark'], [390, 'light'], [900, 'light'], [1440, 'light'], [1440, 'dark'], [1920, 'light']]) {
        await page.emulateMedia({ colorScheme });
        await page.setViewportSize({ width, height: 900 });
        if (width === 390 || width === 1440) assert.deepEqual(await violations(page), [], `${path} at ${width} in ${colorScheme}`);
        const beyond = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
        assert.ok(beyond <= 0, `${path} at ${width} is ${beyond} pixels too wide`);
        await page.screenshot({ path: `${shots}manual-${name}-${width}-${colorScheme}.png` });
      }
    }
  });
});
