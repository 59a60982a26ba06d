// Why runs do not run: on the overview, in the list and on the page of a run, where its question is decided too.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { violations } from './axe.js';
import { operators } from './operator.js';

const { arrive } = operators();

test('the overview says why queued runs do not run, and leads to the question that ends it', async (t) => {
  const { operator, client } = await arrive(t);
  const asked = [];
  for (const thread of ['berlin', 'oslo']) {
    const { run } = await client.send({ thread, text: 'plan a trip', agent: 'tour' });
    for await (const _ of client.follow({ run, until: 'waiting' }));
    asked.push(run);
    for (const text of ['and hotels', 'and trains', 'and museums']) await client.send({ thread, text, agent: 'tour', mode: 'queue' });
  }
  await client.pauseAgent('echo', { reason: 'the provider <b>is away</b>' });
  const paused = await client.send({ thread: 'hello', text: 'hello', agent: 'echo' });
  await operator.enter();
  const { page } = operator;
  await page.getByRole('heading', { name: 'Why 7 queued runs do not run' }).waitFor();
  const causes = page.locator('ol.waits li');
  await page.locator('ol.waits li').nth(1).waitFor();
  assert.match(await causes.nth(0).textContent(), /6\s+wait\s+behind 2 runs\s+for\s+a decision: May I send this postcard\?/);
  assert.match(await causes.nth(1).textContent(), /1\s+waits\s+for\s+agent echo, which admin has paused: the provider <b>is away<\/b>/);
  for (const [colorScheme, width] of [['light', 1440], ['dark', 390]]) {
    await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' });
    await page.setViewportSize({ width, height: 900 });
    assert.deepEqual(await violations(page), [], `at ${width} in ${colorScheme}`);
    await operator.shot(`console-waits-overview-${width}`);
  }
  await page.setViewportSize({ width: 1440, height: 900 });
  await operator.go('runs?q=status:queued');
  await page.getByText('Waits for a decision: May I send this postcard?').first().waitFor();
  await operator.shot('console-waits-runs');

  const { items } = await client.runs({ q: 'thread:berlin status:queued' });
  await operator.go(`run/${items.at(-1).id}`);
  await page.getByText('Waits for the run before it in its thread').waitFor();
  await page.getByText('which waits for a decision: May I send this postcard?').waitFor();
  await operator.shot('console-waits-queued');
  await page.locator('ol.waits a').first().click();
  await page.locator('.tickets').getByText('May I send this postcard?').waitFor();
  for (const [colorScheme, width] of [['light', 1440], ['dark', 390]]) {
    await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' });
    await page.setViewportSize({ width, height: 900 });
    assert.deepEqual(await violations(page), [], `at ${width} in ${colorScheme}`);
    await operator.shot(`console-waits-run-${width}`);
  }
  await page.getByRole('button', { name: 'Approve' }).click();
  for await (const _ of client.follow({ run: asked[0] }));
  assert.equal((await client.run(asked[0])).status, 'completed');
  await page.locator('.tickets').waitFor({ state: 'detached' });
  await operator.go(`run/${paused.run}`);
  await page.getByText('Waits for agent echo, which admin has paused: the provider <b>is away</b>').waitFor();
});
