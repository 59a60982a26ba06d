// The first page: what needs a person, and how the runs went.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { open } from '../../clients/js/test/server.js';
import { violations } from './axe.js';
import { config, HOSTILE, operators, populate } from './operator.js';
import { senderOf } from './sender.js';

const { visit, arrive } = operators();

/** Takes screenshots of the open page at each width, and checks that it fits and breaks no rule of accessibility. */
async function looks(operator, name) {
  const { page } = operator;
  for (const [width, colorScheme] of [[390, 'dark'], [900, 'dark'], [1440, 'light'], [1920, 'light']]) {
    await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' });
    await page.setViewportSize({ width, height: 1000 });
    assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), `${name} is too wide at ${width}`);
    if (width !== 900 && width !== 1920) assert.deepEqual(await violations(page), [], `${name} at ${width} in ${colorScheme}`);
    await operator.shot(`console-${name}-${width}`);
    if (width === 900 || name !== 'overview') continue;
    await page.getByRole('region', { name: 'Comparison' }).scrollIntoViewIfNeeded();
    await operator.shot(`console-${name}-agents-${width}`);
    await page.locator('main').evaluate((main) => main.scrollTo(0, 0));
  }
}

test('an empty store shows the first commands, which work', async (t) => {
  const server = await open(t, '[agents.echo]\nkind = "echo"\npace = "0s"\n[agents.tour]\nkind = "tour"\npace = "0s"\n');
  const operator = await (await visit(t, server)).enter();
  const { page } = operator;
  await page.getByRole('heading', { name: 'Nothing was sent yet' }).waitFor();
  const commands = await page.locator('.first pre').allInnerTexts();
  assert.equal(commands.length, 3);
  assert.equal(await page.locator('figure').count(), 0);
  await looks(operator, 'overview-empty');
  await server.command(...commands[0].split(' ').slice(1, 2), 'hello mailroom');
  await page.getByText('1 completed').waitFor(); // without a reload
  await page.getByText(/^Nothing needs you: no open question, no failed run, /).waitFor();
  await page.getByText('No run of this range reported tokens or cost.').waitFor(); // with the charts
  assert.equal(await page.locator('figure').count(), 2);
});

test('what needs a person comes first, and the worst agent with its commonest error is two clicks away', async (t) => {
  const { operator, client } = await arrive(t);
  await populate(client);
  for (let i = 0; i < 3; i++) for await (const _ of client.follow({ run: (await client.send({ text: 'x', agent: 'broken', max_attempts: 1 })).run }));
  await client.pauseAgent('echo', { reason: 'the provider is away' });
  await operator.enter();
  const { page } = operator;
  const needs = page.locator('.needs li');
  await page.getByRole('heading', { name: 'Needs you' }).waitFor();
  await page.locator('.needs').getByText('desk').waitFor();
  assert.match(await needs.nth(0).innerText(), /to decide\s+1 open question\s+the oldest for/);
  assert.match(await needs.nth(1).innerText(), /failed\s+4 runs failed for good\s+last now|failed\s+4 runs failed for good\s+last \d+/);
  assert.match(await needs.nth(1).innerText(), /4 of them: .*no route to the host/);
  assert.match(await page.locator('.needs').innerText(), /paused\s+agent echo\s+.*\s+by admin: the provider is away; 0 queued/);

  const figures = page.getByRole('list', { name: 'Compared with the range before' });
  await figures.getByText('nothing before').first().waitFor();
  assert.match(await figures.innerText(), /\d+\s+ended, [\d.]+ (an hour|a day)/);
  const rows = page.getByRole('region', { name: 'Comparison' }).locator('tbody tr');
  assert.match(await rows.nth(0).innerText(), /^broken\s+100%\s+\$0\s/);
  await looks(operator, 'overview');

  const ended = page.locator('figure', { hasText: 'Ended' });
  const legend = async (name) => ended.locator('.u-series', { hasText: name }).locator('.u-value').innerText();
  assert.equal(await legend('Failed'), '4', 'the legend says what the range came to');
  assert.equal(await legend('Time'), 'whole range');

  await page.route(/stats\/series/, async (route) => { // as if half of two runs had failed in the range before
    const response = await route.fetch();
    const series = await response.json();
    if (Date.parse(series.to) < Date.now()) {
      const at = series.from;
      series.items = [{ at, completed: 1, failed: 1, cancelled: 0, started: 2, start_delay_ms: 60_000, ran_ms: 0, start_delays: series.start_delay_bounds_ms.concat(0).fill(0), input_tokens: 0, output_tokens: 0, cost_usd: 1234.5 }];
    }
    await route.fulfill({ response, json: series });
  });
  await page.reload();
  await figures.getByText('↑ from 50%, better').waitFor();
  assert.match(await figures.innerText(), /ended.*\s+↑ from 2\s/);
  assert.match(await figures.innerText(), /cost\s+↓ from \$1,235\s/);
  assert.match(await figures.innerText(), /start delay, on average\s+↓ from 30s\s*, better/);
  await page.unroute(/stats\/series/);

  await operator.button('Cost').focus(); // by the keyboard
  await page.keyboard.press('Enter');
  await page.waitForURL(/by=cost/);
  await page.getByRole('region', { name: 'Comparison' }).locator('th[aria-sort="descending"]').getByText('Cost', { exact: true }).waitFor();
  await operator.button('Failed').click();
  await rows.nth(0).getByRole('link', { name: 'broken' }).click();
  await page.locator('ol.plain li').getByText('no route to the host').waitFor();
});

test('the cost of one customer last week is three clicks away', async (t) => {
  const server = await open(t, `stats_label = "customer"\n${config}`);
  const client = senderOf(server);
  const values = ['acme', HOSTILE, ...Array.from({ length: 9 }, (_, i) => `customer ${i}`)];
  for (const customer of [...values, 'acme']) {
    const { run } = await client.send({ text: 'hello', agent: 'echo', metadata: { customer } });
    for await (const _ of client.follow({ run }));
  }
  const operator = await (await visit(t, server)).enter();
  const { page } = operator;
  await page.route(/stats\/sums.*by=label/, async (route) => { // as if the agent had reported a cost
    const response = await route.fetch();
    const sums = await response.json();
    for (const item of sums.items) item.sums.cost_usd = item.name === 'customer 3' ? 12.5 : item.sums.completed;
    await route.fulfill({ response, json: sums });
  });
  const rows = page.getByRole('region', { name: 'Comparison' }).locator('tbody tr');
  await page.getByRole('heading', { name: 'By agent' }).waitFor();
  await operator.button('Week').click();
  await operator.button('customer').click();
  await page.getByRole('heading', { name: 'By customer' }).waitFor();
  await operator.button('Cost').click(); // the third
  await rows.first().getByText('customer 3').waitFor();
  assert.match(await rows.nth(0).innerText(), /^customer 3\s+0%\s+\$12\.5/);
  assert.match(await rows.nth(1).innerText(), /^acme\s+0%\s+\$2/);
  assert.match(await page.locator('.tools', { hasText: 'By customer' }).innerText(), /since /);
  await looks(operator, 'overview-label');
  await operator.button('All 11 values').click();
  await rows.nth(10).waitFor();
  assert.equal(await rows.count(), 11, 'no run is without a customer');
  assert.match(await rows.getByText('<img src=x').innerText(), /^<img src=x onerror=/);
  assert.notEqual(await page.title(), '1');
  await page.reload(); // the address has the choice
  await page.getByRole('heading', { name: 'By customer' }).waitFor();
  await operator.button('Agent').click();
  await rows.getByRole('link', { name: 'echo' }).waitFor();
});

test('without a label only agents are compared', async (t) => {
  const { operator, client } = await arrive(t);
  await populate(client);
  await operator.enter();
  await operator.page.getByRole('heading', { name: 'By agent' }).waitFor();
  await operator.page.getByRole('region', { name: 'Comparison' }).waitFor();
  assert.equal(await operator.page.getByRole('group', { name: 'Sums by' }).count(), 0);
});
