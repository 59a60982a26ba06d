// Deciding in the console: equal questions are together, a decision can be undone, and many are decided at once.

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';

import { work } from '../../clients/js/worker/index.js';
import { violations } from './axe.js';
import { asks } from './fleet.js';
import { holdDecisions, HOSTILE, operators } from './operator.js';

/** A question about a release: they differ in their arguments. */
const release = (n) => ({ prompt: 'Deploy `web` to production?', action: 'run', arguments: { command: `kubectl apply -f web-${n}.yaml`, cluster: 'prod-eu' } });

describe('the inbox', () => {
  const { arrive } = operators();

  /** A server with workers that ask, and a function that waits until each of some messages has become a question. */
  async function asking(t) {
    const { server, operator, client } = await arrive(t);
    const worker = work({ deployer: asks, writer: asks }, { url: server.url, token: server.token, slots: 16, log: { debug() {}, info() {}, warn() {}, error() {} } });
    t.after(() => worker.stop({ within: 1_000 }));
    await worker.ready;
    const ask = async (questions) => {
      const runs = await Promise.all(questions.map(({ thread, agent = 'deployer', ...question }) => client.send({ thread, agent, text: JSON.stringify(question) })));
      for (const { run } of runs) for await (const _ of client.follow({ run, until: 'waiting' }));
      return runs.map(({ run }) => run);
    };
    return { server, operator, client, ask, page: operator.page };
  }

  const fleet = (n) => Array.from({ length: n }, (_, i) => ({ thread: `site-${i}`, ...release(i) }));
  const open = async (client) => (await client.tickets({ q: 'state:open kind:approval,input', limit: 500 })).items.length;

  test('has equal questions together, names their agent, and is filtered and sorted', async (t) => {
    const { operator, ask, page } = await asking(t);
    await ask(fleet(7));
    await ask(['4.34', '4.50.1'].map((version) => ({ thread: `v${version}`, agent: 'writer', prompt: `Announce release ${version}?`, action: 'post' })));
    await ask([
      { thread: 'essay', agent: 'writer', kind: 'input', prompt: 'Which title has [this](https://evil.example)?', expires: '2h' },
      { thread: 'letter', agent: 'writer', prompt: 'Send the letter?', action: 'send', expires: '1h', arguments: { text: 'x'.repeat(900) } },
      { thread: 'bare', prompt: HOSTILE, action: HOSTILE },
    ]);
    await holdDecisions(page);
    await operator.enter('inbox');
    const groups = page.locator('.group');
    await page.getByText('12 questions in 5 groups').waitFor();
    assert.match(await groups.nth(0).locator('.meta').first().textContent(), /7 approvals\s+deployer\s+run/);
    assert.equal(await groups.nth(0).locator('.prompt code').textContent(), 'web');
    assert.equal(await groups.nth(0).locator('.question').count(), 5);
    assert.match(await groups.nth(0).locator('.given').first().textContent(), /"command": "kubectl apply -f web-\d.yaml", "cluster": "prod-eu"/);
    assert.equal(await page.locator('.digest').count(), 0, 'a fingerprint is only in the details');
    await groups.getByText('[this](https://evil.example)').waitFor();
    const versions = groups.filter({ hasText: 'Announce' });
    assert.match(await versions.locator('.asked').textContent(), /2 approvals.*Announce release …\?/);
    assert.deepEqual((await versions.locator('.question .prompt').allTextContents()).sort(), ['Announce release 4.34?', 'Announce release 4.50.1?']);
    for (const [colorScheme, width] of [['light', 1440], ['dark', 390], ['light', 900], ['light', 1920]]) {
      await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' });
      await page.setViewportSize({ width, height: 900 });
      assert.deepEqual(await violations(page), [], `at ${width} in ${colorScheme}`);
      assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), `too wide at ${width}`);
      await operator.shot(`inbox-${width}`);
    }
    await page.setViewportSize({ width: 390, height: 844 });
    const [approve, deny] = await Promise.all(['Approve', 'Deny'].map((name) => operator.button(name).first().boundingBox()));
    assert.equal(approve.y, deny.y, 'the buttons share a row');
    assert.ok(approve.height >= 44 && deny.height >= 44, `the buttons are ${approve.height} and ${deny.height} high`);
    await page.setViewportSize({ width: 1440, height: 900 });
    await page.getByRole('button', { name: 'Show 2 more' }).click();
    assert.equal(await groups.nth(0).locator('.question').count(), 7);
    await groups.nth(0).getByRole('button', { name: 'Details' }).first().click();
    await page.locator('.digest').waitFor();
    await operator.shot('inbox-details');

    await page.getByLabel('Order').selectOption('expiry');
    await page.waitForFunction(() => document.querySelector('.group .prompt').textContent === 'Send the letter?');
    await page.getByLabel('Kind').selectOption('input');
    await page.locator('.count').getByText('1 question', { exact: true }).waitFor();
    await page.getByLabel('Kind').selectOption('');
    await page.getByLabel('Agent').selectOption('writer');
    await page.locator('.count').getByText('4 questions').waitFor();
    assert.match(page.url(), /inbox\?agent=writer&sort=expiry$/);
    await page.reload();
    await page.locator('.count').getByText('4 questions').waitFor();
    await page.getByLabel('Kind').selectOption('event');
    await page.getByText('No question matches').waitFor();
    await page.getByRole('link', { name: 'show all questions' }).click();
    await groups.filter({ hasText: 'onerror' }).getByRole('button', { name: 'Deny' }).click();
    await page.locator('.step .undo').click();
    assert.equal(await page.locator('main img, aside img').count(), 0);
    assert.equal(await page.title(), 'Inbox · Mailroom', 'a question was run');
    assert.ok(!(await page.evaluate(() => document.documentElement.outerHTML)).includes('\u202e'), 'a character that changes the direction of text is in the page');
  });

  test('waits five seconds with a decision, which can be undone until then', async (t) => {
    const { operator, client, ask, page } = await asking(t);
    const [run] = await ask(fleet(1));
    const sent = [];
    page.on('request', (request) => request.method() === 'POST' && request.url().includes('/v1/tickets/') && sent.push(request.postDataJSON()));
    const sendThem = await holdDecisions(page);
    await operator.enter('inbox');
    await operator.button('Deny').dblclick(); // the second click hits Undo, and undoes nothing
    await page.locator('.step').getByText('Denying').waitFor();
    for (const [colorScheme, width] of [['light', 1440], ['dark', 390]]) {
      await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' });
      await page.setViewportSize({ width, height: 800 });
      assert.deepEqual(await violations(page), [], `at ${width} in ${colorScheme}`);
      await operator.shot(`inbox-undo-${width}`);
    }
    await page.locator('.question .undo').click();
    await operator.button('Deny').waitFor();
    await operator.button('Approve').click();
    await page.keyboard.press('u');
    await operator.button('Deny').waitFor();
    await operator.go('runs'); // the bar is on every page
    await operator.go(`run/${run}`);
    await operator.button('Approve').click();
    await operator.go('runs');
    await page.locator('.step .undo').click();
    await page.locator('.step').waitFor({ state: 'detached' });
    await operator.go('inbox');
    await page.locator('.question').click({ position: { x: 5, y: 5 } });
    await sendThem();
    const begun = Date.now();
    await page.keyboard.press('d');
    await page.locator('.notice').getByText('Denied: Deploy').waitFor();
    assert.ok(Date.now() - begun >= 5_000, 'it was sent at once');
    assert.deepEqual(sent.map(({ decision }) => decision), ['deny'], 'a decision that was undone was sent');
    await page.getByText('Nothing waits for you').waitFor();
    assert.equal(await open(client), 0);
  });

  test('decides one question however often its key is pressed', async (t) => {
    const { operator, client, ask, page } = await asking(t);
    await ask(fleet(3));
    await operator.enter('inbox');
    await page.locator('.question').nth(2).waitFor();
    await page.keyboard.press('a'); // nothing is selected
    await page.keyboard.press('j');
    for (let i = 0; i < 4; i++) await page.keyboard.press('a');
    await page.keyboard.press('d');
    assert.equal(await page.locator('.step .undo').count(), 1);
    await page.locator('.notice').getByText('Approved: Deploy').waitFor();
    await page.waitForFunction(() => document.querySelectorAll('.question').length === 2);
    await page.keyboard.press('a'); // the next one is not selected
    assert.equal(await page.locator('.step .undo').count(), 0);
    await page.getByText('Select a question first').waitFor();
    assert.equal(await open(client), 2);
    await page.evaluate(() => { // a click that was on its way when the lines moved
      const now = () => document.querySelectorAll('.question').length;
      new MutationObserver(() => now() === 1 && !window.clicked && (window.clicked = document.querySelector('.question .approve')).dispatchEvent(new MouseEvent('click', { bubbles: true, detail: 1 })))
        .observe(document.querySelector('.tickets'), { childList: true, subtree: true });
    });
    await page.keyboard.press('j');
    await page.keyboard.press('d');
    await page.locator('.notice').getByText('Denied: Deploy').waitFor();
    await page.getByText('The list has just changed').waitFor();
    assert.equal(await page.locator('.step .undo').count(), 0);
    assert.equal(await open(client), 1);
  });

  test('keeps the place of a user who has only a keyboard', async (t) => {
    const { operator, client, ask, page } = await asking(t);
    await ask(fleet(2));
    const sendThem = await holdDecisions(page);
    await operator.enter('inbox');
    const focus = () => page.evaluate(() => document.activeElement.closest('[data-id]')?.dataset.id ?? document.activeElement.className);
    await operator.button('Approve').first().waitFor();
    const ids = await page.locator('.question').evaluateAll((all) => all.map(({ dataset }) => dataset.id));
    await page.keyboard.press('j');
    assert.equal(await focus(), ids[0]);
    for (let i = 0; i < 4; i++) await page.keyboard.press('Tab'); // thread, run, details, approve
    await page.keyboard.press('Enter');
    await page.locator('.question .undo').waitFor();
    assert.equal(await focus(), ids[0], 'the button took the focus with it');
    await page.keyboard.press('Enter'); // on the question itself
    for (let i = 0; i < 4; i++) await page.keyboard.press('Tab');
    await page.keyboard.press('Enter'); // Undo
    await page.locator('.step').waitFor({ state: 'detached' });
    assert.equal(await focus(), ids[0]);
    await page.keyboard.press('a');
    await page.keyboard.press('g');
    await page.keyboard.press('o');
    await page.getByRole('heading', { name: 'Overview' }).waitFor();
    await page.keyboard.press('u');
    await page.locator('.step').waitFor({ state: 'detached' });
    await page.keyboard.press('g');
    await page.keyboard.press('i');
    await page.locator('.question').first().waitFor();
    await page.keyboard.press('j');
    await sendThem();
    await page.keyboard.press('d');
    await page.locator('.notice').getByText('Denied').waitFor();
    await page.waitForFunction(() => document.querySelectorAll('.question').length === 1);
    assert.equal(await focus(), 'tickets', 'the focus fell out of the list');
    assert.equal(await open(client), 1);
  });

  test('drops a decision when its page is left, and says so', async (t) => {
    const { server, operator, client, ask, page } = await asking(t);
    await ask(fleet(1));
    const dialogs = [];
    page.on('dialog', (dialog) => { dialogs.push(dialog.type()); dialog.accept(); });
    const sendThem = await holdDecisions(page);
    await operator.enter('inbox');
    await operator.button('Approve').click();
    await page.locator('.step').getByText('Approving').waitFor();
    await page.goto(`${server.url}/chat`);
    assert.deepEqual(dialogs, ['beforeunload'], 'the browser did not ask');
    await page.goto(`${server.url}/#/inbox`);
    await page.getByRole('alert').getByText('One decision was not sent, because the page was left').waitFor();
    await operator.shot('inbox-unsent');
    await page.getByRole('alert').getByRole('button', { name: 'Close' }).click();
    await page.getByRole('alert').waitFor({ state: 'detached' });
    const tab = await page.context().newPage(); // of the same session
    await holdDecisions(tab);
    await tab.goto(`${server.url}/#/inbox`);
    await tab.getByRole('button', { name: 'Approve', exact: true }).click();
    await tab.locator('.step .undo').waitFor();
    await tab.close();
    await page.reload();
    await page.getByRole('alert').getByText('One decision was not sent, because the page was left').waitFor();
    await operator.button('Approve').click();
    await operator.button('Sign out').click();
    await page.getByRole('alert').getByText('because you were signed out').waitFor();
    assert.equal(await page.locator('.decisions').count(), 0);
    await sendThem();
    await new Promise((resolve) => { setTimeout(resolve, 1_000); }); // long enough for what should not happen
    assert.equal(await open(client), 1, 'it was sent');
  });

  test('decides 30 equal questions in three clicks from the overview', async (t) => {
    const { operator, client, ask, page } = await asking(t);
    const runs = await ask(fleet(30));
    await operator.enter();
    let clicks = 0;
    const click = (target) => { clicks++; return target.click(); };
    await click(page.getByRole('link', { name: /^Inbox/ }));
    await click(page.getByRole('button', { name: 'Approve all 30…' }));
    await page.getByRole('heading', { name: 'Approve 30 questions?' }).waitFor();
    const each = page.locator('.each li');
    assert.equal(await each.count(), 30);
    const { items } = await client.tickets({ q: 'state:open kind:approval', limit: 500 });
    const shown = (await each.allTextContents()).join('\n');
    for (const { digest, arguments: { command } } of items) assert.ok(shown.includes(digest.slice(0, 16)) && shown.includes(command), `${command} is not shown`);
    for (const [colorScheme, width] of [['light', 1440], ['dark', 390]]) {
      await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' });
      await page.setViewportSize({ width, height: 800 });
      assert.deepEqual(await violations(page), [], `at ${width} in ${colorScheme}`);
      await operator.shot(`inbox-all-${width}`);
    }
    await page.setViewportSize({ width: 1440, height: 900 });
    await click(page.getByRole('button', { name: 'Approve 30 questions' }));
    await page.locator('.notice').getByText('30 approved: Deploy').waitFor();
    assert.equal(clicks, 3);
    for (const run of runs) for await (const _ of client.follow({ run }));
    for (const run of runs) assert.equal((await client.run(run)).reply, 'true');
  });

  test('decides 30 equal questions with four keys, and undoes them with one', async (t) => {
    const { operator, client, ask, page } = await asking(t);
    await ask(fleet(30));
    const sendThem = await holdDecisions(page);
    await operator.enter();
    const keys = async (...all) => { for (const key of all) await page.keyboard.press(key); };
    await keys('g', 'i');
    await page.getByText('30 questions in 1 group').waitFor();
    await keys('D');
    const heading = page.getByRole('heading', { name: 'Deny 30 questions?' });
    await heading.waitFor();
    await keys('Enter');
    await page.locator('.step').getByText('Denying 30 questions').waitFor();
    await keys('u');
    await page.locator('.step').waitFor({ state: 'detached' });
    await keys('D');
    await heading.waitFor();
    await sendThem();
    await keys('Enter');
    await page.locator('.notice').getByText('30 denied: Deploy').waitFor();
    assert.equal(await open(client), 0);
  });

  test('shows what was refused of many, and loses nothing', async (t) => {
    const { operator, client, ask, page } = await asking(t);
    await ask(fleet(6));
    const { items } = await client.tickets({ q: 'state:open kind:approval', limit: 500 });
    const [changed, taken] = items;
    await page.route('**/v1/tickets?*', async (route) => { // the page shows another question than the server has
      const response = await route.fetch();
      const body = await response.json();
      for (const item of body.items) if (item.id === changed.id) item.digest = '0'.repeat(64);
      await route.fulfill({ response, json: body });
    });
    await operator.enter('inbox');
    await page.getByRole('button', { name: 'Approve all 6…' }).click();
    await client.decide(taken.id, { decision: 'deny', digest: taken.digest });
    await page.getByRole('button', { name: 'Approve 6 questions' }).click();
    const outcome = page.getByRole('alert').filter({ hasText: '4 of 6 approved' });
    await outcome.getByText('It has changed since it was shown').waitFor();
    await outcome.getByText('Denied by admin before you.').waitFor();
    await outcome.getByText(changed.thread).waitFor();
    await operator.shot('inbox-refused');
    assert.deepEqual(await violations(page), []);
    await page.waitForFunction(() => document.querySelectorAll('.question').length === 1);
    assert.equal((await client.ticket(changed.id)).state, 'open');
    assert.equal((await client.ticket(taken.id)).decision, 'deny');
    assert.equal(await open(client), 1);
  });

  test('sends no more of many once the server does not answer', async (t) => {
    const { operator, client, ask, page } = await asking(t);
    await ask(fleet(12));
    const held = [];
    await page.route('**/v1/tickets/*', (route) => (route.request().method() === 'POST' ? held.push(route) : route.continue()));
    await operator.enter('inbox');
    await page.getByRole('button', { name: 'Approve all 12…' }).click();
    await page.getByRole('button', { name: 'Approve 12 questions' }).click();
    const outcome = page.getByRole('alert').filter({ hasText: '0 of 12 approved' });
    await outcome.getByText('it was withdrawn').first().waitFor();
    assert.equal(await outcome.locator('li').count(), 12);
    assert.equal(await outcome.getByText('Not sent:').count(), 8);
    assert.equal(await open(client), 12);
  });

  test('answers equal questions with one text', async (t) => {
    const { operator, client, ask, page } = await asking(t);
    const runs = await ask(Array.from({ length: 3 }, (_, i) => ({ thread: `q-${i}`, kind: 'input', prompt: 'Which colour?' })));
    await operator.enter('inbox');
    await page.getByText('3 questions in 1 group').waitFor();
    await page.keyboard.press('j');
    await page.keyboard.press('a');
    await page.keyboard.type('blue');
    await page.keyboard.press('Enter');
    await page.locator('.step').getByText('Answering').waitFor();
    await page.keyboard.press('A');
    await page.getByRole('heading', { name: 'Answer 2 questions?' }).waitFor();
    await page.keyboard.press('Enter');
    await page.getByText('Write an answer first.').waitFor();
    await page.keyboard.type('green');
    await page.keyboard.press('Enter');
    await page.locator('.notice').getByText('2 answered: Which colour?').waitFor();
    for (const run of runs) for await (const _ of client.follow({ run }));
    const replies = await Promise.all(runs.map(async (run) => (await client.run(run)).reply));
    assert.deepEqual(replies.sort(), ['blue', 'green', 'green']);
  });

  test('sends nothing after the page slept', async (t) => {
    const { operator, client, ask, page } = await asking(t);
    await ask(fleet(2));
    await page.clock.install(); // for all pages after it, too: this is the last test
    await operator.enter('inbox');
    await page.getByRole('button', { name: 'Approve all 2…' }).click();
    await page.getByRole('button', { name: 'Approve 2 questions' }).click();
    await page.clock.fastForward(600_000); // a closed lid
    await page.getByRole('alert').getByText('2 decisions were not sent, because the page slept').waitFor();
    assert.equal(await open(client), 2);
  });
});
