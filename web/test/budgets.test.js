// The budgets of agents, tokens and threads, of the run that has one, and what the other pages say about a spent one.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { Mailroom } from '../../clients/js/mailroom.js';
import { open } from '../../clients/js/test/server.js';
import { work } from '../../clients/js/worker/index.js';
import { amounts, bounds, money } from '../console/amounts.js';
import { colorRules, violations } from './axe.js';
import { operators } from './operator.js';
import { senderOf } from './sender.js';

const { visit, arrive } = operators();

const config = `
budget_zone = "Europe/Berlin"
[agents.echo]
kind = "echo"
[agents.clerk]
kind = "remote"
budget = { day = "1usd", month = "100usd, 2m tokens" }
[agents.calm]
kind = "remote"
budget = { day = "30 turns" }
`;

/** A turn that costs what its message says, and one that lends to a run and waits. */
const handlers = {
  async clerk(s) {
    await s.step({ name: 'turn', usage: { cost_usd: Number(s.text), input_tokens: 1_500 } });
    await s.write('done');
  },
  async calm(s) {
    if (!s.checkpoint) await s.step({ name: 'turn', checkpoint: 'turned', usage: { cost_usd: Number(s.text) } });
    await s.write('done');
  },
  async chief(s) {
    if (!s.checkpoint) await s.step({ name: 'plan', checkpoint: 'planned', usage: { cost_usd: 0.25, output_tokens: 10 } });
    await s.call('help', { agent: 'helper', text: 'help me', budget: { usd: 0.5 } });
    await s.write('done');
  },
  async helper(s) {
    if (!s.checkpoint) await s.step({ name: 'look', checkpoint: 'looked', usage: { cost_usd: 0.125, output_tokens: 10 } });
    await s.ask('go', { prompt: 'Go on?' });
    await s.write('helped');
  },
};

async function serve(t, server) {
  const worker = work(handlers, { url: server.url, token: server.token, log: { debug() {}, info() {}, warn() {}, error() {} } });
  t.after(() => worker.stop());
  await worker.ready;
}

/** Takes screenshots of the open page at each width, and checks that it fits and breaks no rule of accessibility. */
async function looks(operator, name) {
  const { page } = operator;
  for (const [width, colorScheme, rules] of [[390, 'dark'], [390, 'light', colorRules], [900, 'dark'], [1440, 'light'], [1440, 'dark', colorRules]]) {
    await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' });
    await page.setViewportSize({ width, height: 900 });
    assert.deepEqual(await violations(page, rules), [], `${name} at ${width} in ${colorScheme}`);
    assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), `${name} is too wide at ${width}`);
    await operator.shot(`console-${name}-${width}-${colorScheme}`);
  }
}

const until = async (client, run, status) => { for await (const _ of client.follow({ run, until: status })); };

test('amounts are said exactly, and of each bound how much is used', () => {
  assert.deepEqual([0, 5, 0.5, 0.0042, 0.000001, 1234.567].map(money), ['$0.00', '$5.00', '$0.50', '$0.0042', '$0.000001', '$1234.567']);
  assert.equal(amounts({ usd: 0.25, turns: 1 }, { usd: 1, tokens: 5, turns: 2 }), '$0.25, 0 tokens, 1 turn');
  assert.equal(amounts({}, {}), 'nothing but a time');
  assert.deepEqual(bounds({ budget: { usd: 5 }, raised: { usd: 5 }, used: { usd: 2.5, tokens: 9 }, left: { usd: 7.5 } }), [{ name: 'usd', part: 0.25, used: '$2.50', limit: '$10.00', left: '$7.50' }]);
});

test('a spent budget is seen on each page, raised with the keyboard, and what waited for it goes on', async (t) => {
  const server = await open(t, config);
  await serve(t, server);
  const client = new Mailroom(server);
  const first = await client.send({ thread: 'inbox', text: '1.25', agent: 'clerk' });
  await until(client, first.run);
  const second = await client.send({ thread: 'inbox', text: '1.5', agent: 'clerk' });
  const operator = await visit(t, server);
  const { page } = operator;
  await operator.enter('budgets');
  const row = (period) => page.getByRole('region', { name: 'Budgets' }).locator('tbody tr', { hasText: 'clerk' }).filter({ hasText: period });
  await row('day').getByRole('button', { name: 'Approve' }).waitFor();
  assert.match(await row('day').innerText(), /agent clerk a day\s+spent nothing starts\s+\$1\.25 of \$1\.00 \$0\.00 left.*00:00.*Raise it by \$1\.00\?/s);
  assert.match(await row('month').innerText(), /a month\s+open\s+\$1\.25 of \$100\.00 \$98\.75 left\s+1,500 of 2,000,000 tokens 1,998,500 left/s);
  assert.equal(await row('month').getByRole('button', { name: 'Approve' }).count(), 0);
  await looks(operator, 'budgets');

  await operator.go('overview');
  await page.getByRole('link', { name: 'budget of agent clerk', exact: true }).waitFor();
  await page.locator('.waits').getByRole('link', { name: /the budget of agent clerk/ }).waitFor();
  await looks(operator, 'overview-spent');
  await page.getByRole('link', { name: 'budget of agent clerk', exact: true }).press('Enter');
  await page.getByText('1 of 3 budgets').waitFor();
  await page.getByRole('link', { name: 'clerk', exact: true }).press('Enter');
  await page.locator('dt', { hasText: 'Budget a day' }).waitFor();
  await page.getByText('a question is open').waitFor();
  await looks(operator, 'agent-spent');

  await operator.go('budgets');
  await row('day').getByRole('button', { name: 'Approve' }).press('Enter');
  await row('day').getByRole('button', { name: 'Undo' }).waitFor();
  await until(client, second.run);
  await row('day').getByText('raised by $1.00').waitFor();
  await row('day').getByText('$2.75 of $2.00').waitFor();
  const raise = page.getByRole('button', { name: 'Raise the budget of agent clerk for this day' });
  await raise.press('Enter');
  await page.getByLabel('Raise by').fill('5eur');
  await operator.button('Raise').press('Enter');
  await page.getByRole('alert').getByText('money is counted in US dollars').waitFor();
  await looks(operator, 'budget-raise');
  await page.getByLabel('Raise by').fill('5usd');
  await operator.button('Raise').press('Enter');
  await row('day').getByText('$2.75 of $7.00').waitFor();
  assert.match(await row('day').innerText(), /open.*\$4\.25 left/s);
  await page.keyboard.press('Escape');
  await page.locator('main').press('g');
  await page.keyboard.press('m');
  await operator.button('Spent 0').waitFor();
});

test('a thread with budgets is on the page: the run that spends one stops and asks, and goes on once it is raised', async (t) => {
  const server = await open(t, config);
  await serve(t, server);
  const client = new Mailroom(server);
  const first = await client.send({ thread: 'trip', text: '0.25', agent: 'calm' });
  await until(client, first.run);
  await client.patchThread('trip', { budget: { day: '2usd', life: '1usd' } });
  const second = await client.send({ thread: 'trip', text: '1.25', agent: 'calm' });
  const operator = await visit(t, server);
  const { page } = operator;
  await operator.enter('budgets');
  await page.getByLabel('Filter budgets').fill('thread trip');
  await page.getByText('2 of 5 budgets').waitFor();
  const row = (period) => page.getByRole('region', { name: 'Budgets' }).locator('tbody tr', { hasText: 'trip' }).filter({ hasText: period });
  await row('in its life').getByRole('button', { name: 'Approve' }).waitFor();
  assert.match(await row('in its life').innerText(), /thread trip in its life\s+spent nothing starts\s+\$1\.25 of \$1\.00 \$0\.00 left\s+never\s+Raise it by \$1\.00\?/s);
  assert.match(await row('a day').innerText(), /low|open/);
  await looks(operator, 'budgets-thread');
  await row('in its life').getByRole('button', { name: 'Approve' }).press('Enter');
  await until(client, second.run);
  await row('in its life').getByText('$1.25 of $2.00').waitFor();
  await row('in its life').getByRole('link', { name: 'trip' }).press('Enter');
  await page.getByText('2 runs').first().waitFor();
});

test('the page of a run shows its budget and what it lent, and what an ended run gave back', async (t) => {
  const server = await open(t, config);
  await serve(t, server);
  const client = new Mailroom(server);
  const { run } = await client.send({ thread: 'plans', text: 'plan', agent: 'chief', budget: { usd: 2, tokens: 1_000 } });
  for (;;) {
    const [child] = (await client.runs({ q: `parent:${run}` })).items;
    if (child?.status === 'waiting') break;
  }
  const operator = await visit(t, server);
  const { page } = operator;
  await operator.enter(`run/${run}`);
  const rows = page.getByRole('region', { name: 'Budget of the run' }).locator('tbody tr');
  await rows.nth(1).waitFor();
  assert.match(await rows.nth(0).innerText(), /This run\s+waiting\s+\$2\.00, 1,000 tokens\s+\$0\.25, 10 tokens\s+\$0\.50.*\$1\.25/s);
  assert.match(await rows.nth(1).innerText(), /helper.*waiting\s+\$0\.50.*\$0\.125, 10 tokens\s+–\s+\$0\.375/s);
  await looks(operator, 'run-budget');
  const [ticket] = (await client.tickets({ q: 'state:open' })).items;
  await client.decide(ticket.id, { digest: ticket.digest, decision: 'answer', answer: { text: 'yes' } });
  await until(client, run);
  await rows.nth(1).getByText('returned').waitFor();
  assert.match(await rows.nth(0).innerText(), /completed.*\$0\.375, 20 tokens\s+–\s+\$1\.625/s);
  await rows.nth(1).getByRole('link').press('Enter');
  await page.getByText('gets back what is left').waitFor();
});

test('without a budget the page says how to make one, and a token sees only what concerns it', async (t) => {
  const { operator, server, client } = await arrive(t);
  const { page } = operator;
  await operator.enter('budgets');
  const command = page.getByLabel('Command for a token');
  await command.waitFor();
  await looks(operator, 'budgets-empty');
  const words = (await command.innerText()).split(' ').slice(1);
  await server.command(...words);
  await page.reload();
  const rows = page.getByRole('region', { name: 'Budgets' }).locator('tbody tr');
  await rows.first().waitFor();
  assert.match(await rows.first().innerText(), /token alice a day\s+open\s+\$0\.00 of \$5\.00/s);

  const bob = await client.createToken({ name: 'bob', scopes: ['read', 'submit'], namespace: 'bob-' });
  await operator.button('Sign out').click();
  await page.getByLabel('Or paste a token').fill(bob.token);
  await page.getByRole('button', { name: 'Sign in' }).click();
  await operator.go('budgets');
  await page.getByText('None of these is set').waitFor();
  assert.equal(await page.getByText('alice').count(), 0);
});

test('of 500 budgets one is found, with few requests', async (t) => {
  const tables = Array.from({ length: 500 }, (_, i) => `[agents.a${i}]\nkind = "remote"\nbudget = { day = "${i + 1}usd" }\n`).join('');
  const server = await open(t, tables);
  const worker = work('a77', handlers.clerk, { url: server.url, token: server.token, log: { debug() {}, info() {}, warn() {}, error() {} } });
  t.after(() => worker.stop());
  await worker.ready;
  const client = senderOf(server);
  const operator = await visit(t, server);
  const { page } = operator;
  await operator.enter();
  const asked = [];
  page.on('request', (request) => { if (/\/v1\/(budgets|tickets)/.test(request.url())) asked.push(request.url()); });
  await operator.go('budgets');
  await page.getByText('500 budgets').waitFor();
  assert.ok(asked.length <= 6, `${asked.length} requests`);
  await looks(operator, 'budgets-500');
  const { run } = await client.send({ thread: 't', text: '70', agent: 'a77' });
  await until(client, run);
  await operator.button('Low 1').click();
  await page.getByText('1 of 500 budgets').waitFor();
  assert.match(await page.getByRole('region', { name: 'Budgets' }).innerText(), /a77.*low 80 % used\s+\$70\.00 of \$78\.00 \$8\.00 left/s);
  assert.ok(asked.length <= 30, `${asked.length} requests`);
});

test('an address with an unknown filter shows all', async (t) => {
  const server = await open(t, config);
  const operator = await visit(t, server);
  await operator.enter('budgets');
  for (const name of ['Budgets', 'Agents', 'Schedules']) {
    for (const show of ['constructor', '__proto__']) {
      await operator.go(`${name.toLowerCase()}?show=${show}`);
      await operator.page.getByRole('heading', { name, exact: true }).waitFor({ timeout: 10_000 });
      if (name !== 'Schedules') await operator.page.locator('tbody').getByText('calm').first().waitFor({ timeout: 10_000 });
    }
  }
});
