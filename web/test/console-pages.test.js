import assert from 'node:assert/strict';
import { describe, test } from 'node:test';

import { colorRules, violations } from './axe.js';
import { operators, populate } from './operator.js';

/** Makes a store of many runs: most completed, a hundred failed. */
async function crowd(client, runs) {
  let next = 0;
  const sender = async () => {
    for (let n = next++; n < runs; n = next++) {
      await client.send({ thread: `crowd-${n % 500}`, text: `message ${n}`, ...(n % 20 === 0 && { thread: `lost-${n}`, agent: 'broken', max_attempts: 1 }) });
    }
  };
  await Promise.all(Array.from({ length: 50 }, sender));
  while ((await client.stats()).runs.queued > 0);
}

describe('the console', () => {
  const { arrive } = operators();

  test('every page is accessible, at three widths and in two schemes', async (t) => {
    const { operator, client } = await arrive(t);
    await crowd(client, 2000);
    const { failed, asked } = await populate(client);
    await operator.enter();
    const { page } = operator;
    const pages = ['overview', 'inbox', 'runs', `run/${failed.run}`, `run/${asked.run}`, 'failures', 'threads', 'search?q=message', 'agents', 'channels', 'alerts', 'audit', 'tail', 'tokens'];
    for (const width of [390, 900, 1600]) {
      await page.emulateMedia({ colorScheme: 'light', reducedMotion: 'reduce' });
      await page.setViewportSize({ width, height: 800 });
      for (const route of pages) {
        await operator.go(route);
        await page.locator(route === 'overview' ? '.chart canvas' : 'main :is(.card, .row, tbody tr, .waterfall, .empty)').first().waitFor();
        assert.deepEqual(await violations(page), [], `${route} at ${width} in light`);
        const beyond = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
        assert.ok(beyond <= 0, `${route} at ${width} is ${beyond} pixels too wide`);
        const name = `console-${route.split(/[/?]/)[0]}-${width}`;
        await operator.shot(`${name}-light`);
        await page.emulateMedia({ colorScheme: 'dark', reducedMotion: 'reduce' });
        assert.deepEqual(await violations(page, colorRules), [], `${route} at ${width} in dark`);
        if (width === 390) await operator.shot(`${name}-dark`);
        await page.emulateMedia({ colorScheme: 'light', reducedMotion: 'reduce' });
      }
    }
  });
});
