// Many agents in the list, and the page of one.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { open } from '../../clients/js/test/server.js';
import { violations } from './axe.js';
import { operators } from './operator.js';
import { senderOf } from './sender.js';

const { visit } = operators();

const AGENTS = 500;

/** A server with so many agents, which all reply, but for coder, which fails as each message says. */
async function crowd(t, agents = AGENTS) {
  const others = Array.from({ length: agents - 1 }, (_, i) => `[agents.a${i}]\nkind = "echo"\npace = "0s"\n`).join('');
  const fails = 'read -r said; test "$said" = fine || { echo "$said" >&2; exit 1; }; echo "$said"';
  const server = await open(t, `${others}[agents.coder]\nkind = "exec"\ncommand = ["sh", "-c", '${fails}']\n[channels.desk]\nkind = "poll"\nurl = "http://127.0.0.1:9"\nworkspace = "w"\ntoken_env = "HOME"\nagent = "a0"\n`);
  const client = senderOf(server);
  const texts = ['no licence for this host', 'no licence for this host', 'no licence for this host', 'out of disk', 'fine'];
  const runs = await Promise.all(texts.map((text, i) => client.send({ thread: `c${i}`, text, agent: 'coder', max_attempts: 1 })));
  for (const { run } of runs) for await (const _ of client.follow({ run }));
  await client.pauseAgent('a7', { reason: 'the provider is away' });
  for (let i = 0; i < 3; i++) await client.send({ thread: `p${i}`, text: 'hello', agent: 'a7' });
  const operator = await visit(t, server);
  await operator.enter();
  return { operator, client };
}

/** Takes screenshots of the open page at each width, and checks that it fits and breaks no rule of accessibility. */
async function looks(operator, name) {
  const { page } = operator;
  for (const [width, colorScheme] of [[390, 'dark'], [900, 'dark'], [1440, 'light'], [1920, 'light']]) {
    await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' });
    await page.setViewportSize({ width, height: 900 });
    if (width !== 900 && width !== 1920) assert.deepEqual(await violations(page), [], `${name} at ${width} in ${colorScheme}`);
    assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), `${name} is too wide at ${width}`);
    await operator.shot(`console-${name}-${width}`);
  }
}

test('one of 500 agents is found by its name, its trouble or its runs, and its page says what is wrong', async (t) => {
  const { operator, client } = await crowd(t);
  const all = (await client.agents()).filter(({ name }) => !name.startsWith('channel:')).length; // with those that need no configuration
  const { page } = operator;
  const rows = page.getByRole('region', { name: 'Agents' }).locator('tbody tr');
  let clicks = 0;
  const click = (target) => { clicks++; return target.click(); };

  await click(page.getByRole('link', { name: 'Agents' }));
  await page.getByText(`${all} agents`).waitFor();
  assert.ok(all >= AGENTS);
  assert.equal(await rows.count(), all);
  assert.equal(await rows.filter({ hasText: 'channel:' }).count(), 0, 'agents of the server stand apart');
  await page.getByText('1 internal agent delivers for the server').waitFor();
  await looks(operator, 'agents');

  await click(operator.button('In trouble 1'));
  await rows.first().filter({ hasText: /a7.*paused.*by admin.*the provider is away/ }).waitFor();
  assert.equal(await rows.count(), 1);
  await click(rows.getByRole('link', { name: 'a7' }));
  await page.getByRole('heading', { name: 'Why 3 queued runs do not run' }).waitFor();
  await operator.button('Resume a7').click();
  await page.locator('main').getByText('available').waitFor();
  assert.equal(clicks, 3);

  await page.goBack();
  await operator.button(`All ${all}`).click();
  await page.getByRole('searchbox', { name: 'Filter agents' }).fill('exec COD');
  await page.getByText(`1 of ${all} agents`).waitFor();
  await rows.getByRole('link', { name: 'coder' }).click();
  const errors = page.locator('ol.plain li');
  await errors.nth(1).waitFor();
  assert.match(await errors.nth(0).textContent(), /^3 .*no licence for this host/, 'the commonest error is first');
  await page.getByText('5 ended, 4 failed (80%)').waitFor();
  await looks(operator, 'agent');
  await errors.nth(0).getByRole('link').first().click();
  await page.locator('.count').getByText('3 runs').waitFor();
});

// A tenth of the agents: how the page looks with all of them is in the test above, and each more is a row more for axe.
test('the list of agents is sorted with the keyboard, and keeps its order in the address', async (t) => {
  const { operator } = await crowd(t, AGENTS / 10);
  const { page } = operator;
  await operator.go('agents');
  const first = page.getByRole('region', { name: 'Agents' }).locator('tbody tr').first();
  await first.getByText('a0', { exact: true }).waitFor();
  for (const name of ['Failed', 'Cost', 'Start delay', 'Last ended']) {
    await operator.button(name).click();
    await page.locator('th[aria-sort="descending"]').getByText(name, { exact: true }).waitFor();
    await first.getByText('coder', { exact: true }).waitFor(); // the only one that has run
  }
  assert.match(await first.innerText(), /80%\s+\$0\s/);
  await looks(operator, 'agents-sorted');
  await page.setViewportSize({ width: 390, height: 900 });
  await page.getByLabel('Sort by').selectOption('queued');
  await first.getByText('a7', { exact: true }).waitFor();
  assert.match(await first.innerText(), /3/, 'a phone shows the column of the order');
  await page.setViewportSize({ width: 1440, height: 900 });
  await operator.button('Queued').focus();
  await page.keyboard.press('Enter');
  await page.locator('th[aria-sort="descending"]').getByText('Queued', { exact: true }).waitFor();
  await first.getByText('a7', { exact: true }).waitFor();
  await page.waitForURL(/sort=queued/);
  await page.reload();
  await first.getByText('a7', { exact: true }).waitFor();
});
