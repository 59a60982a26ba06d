import assert from 'node:assert/strict';
import { mkdirSync, writeFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { describe, test } from 'node:test';

import { Mailroom } from '../../clients/js/mailroom.js';
import { open } from '../../clients/js/test/server.js';
import { violations } from './axe.js';
import { signIn } from './browser.js';
import { config, HOSTILE, operators, populate } from './operator.js';
import { below } from './proxy.js';
import { senderOf } from './sender.js';

describe('the console', () => {
  const { visit, arrive } = operators();

  test('a link signs in once, and signing out ends the session', async (t) => {
    const { server, operator } = await arrive(t);
    const link = (await server.command('open')).trim();
    await operator.page.goto(link);
    await operator.page.getByRole('heading', { name: 'Sign in as admin?' }).waitFor();
    assert.ok(!operator.page.url().includes('sign-in'), 'the secret stays in the address');
    await operator.button('Sign in').click();
    await operator.page.getByRole('heading', { name: 'Overview' }).waitFor();
    await operator.page.reload();
    await operator.page.getByRole('heading', { name: 'Overview' }).waitFor();
    const foreign = JSON.parse(await server.command('token', 'create', 'eve', '--scope', 'read', '-o', 'json')).token;
    const { secret } = await (await fetch(`${server.url}/v1/links`, { method: 'POST', headers: { Authorization: `Bearer ${foreign}` } })).json();
    for (const [answer, name] of [['Stay signed in', 'admin'], ['Sign in', 'eve']]) {
      await operator.page.goto('about:blank');
      await operator.page.goto(`${server.url}/#sign-in=${secret}`);
      await operator.page.getByRole('heading', { name: 'Sign in as eve?' }).waitFor();
      await operator.page.getByText('This tab is signed in as admin').waitFor();
      await operator.button(answer).click();
      await operator.page.locator('nav footer').getByText(name, { exact: true }).waitFor();
    }
    await operator.page.locator('nav footer').getByText('eve', { exact: true }).waitFor();
    await operator.button('Sign out').click();
    await operator.page.getByRole('heading', { name: 'Sign in to Mailroom' }).waitFor();
    await operator.page.goto('about:blank');
    await operator.page.goto(link);
    await operator.page.getByRole('alert').getByText('was used already').waitFor();
    await operator.page.getByLabel('Or paste a token').fill('mr_wrong');
    await operator.page.keyboard.press('Enter');
    await operator.page.getByRole('alert').getByText('does not accept this token').waitFor();
    await operator.page.getByLabel('Or paste a token').fill(server.token);
    await operator.page.keyboard.press('Enter');
    await operator.page.getByRole('heading', { name: 'Overview' }).waitFor();
  });

  test('a link of another user replaces no token unasked, in no tab', async (t) => {
    const { server, operator } = await arrive(t);
    const { page } = operator;
    const context = page.context();
    await page.goto(`${server.url}/`);
    await page.getByLabel('Or paste a token').fill(server.token);
    await page.keyboard.press('Enter');
    await page.locator('nav footer').getByText('admin, with a token', { exact: true }).waitFor();
    const eve = JSON.parse(await server.command('token', 'create', 'eve', '--scope', 'read', '-o', 'json')).token;
    const link = async () => {
      const { secret } = await (await fetch(`${server.url}/v1/links`, { method: 'POST', headers: { Authorization: `Bearer ${eve}` } })).json();
      return `${server.url}/#sign-in=${secret}`;
    };
    const tab = await context.newPage();
    t.after(() => tab.close());
    await tab.goto(await link());
    await tab.getByRole('heading', { name: 'Sign in as eve?' }).waitFor();
    await tab.getByText('This tab is signed in as admin').waitFor(); // with the token of the other one
    await tab.getByRole('button', { name: 'Stay signed in', exact: true }).click();
    await tab.locator('nav footer').getByText('admin, with a token', { exact: true }).waitFor();
    assert.equal((await context.cookies()).length, 0, 'there is a session');
    await signIn(tab, await link());
    await tab.locator('nav footer').getByText('eve', { exact: true }).waitFor();
    await page.reload();
    await page.locator('nav footer').getByText('admin, with a token', { exact: true }).waitFor();
    await page.goto(`${server.url}/chat`);
    await page.reload();
    assert.equal(await page.evaluate(() => sessionStorage.getItem('mailroom.token')), server.token);
    await tab.reload();
    await tab.locator('nav footer').getByText('eve', { exact: true }).waitFor();
    // A tab without anything is asked too.
    await page.evaluate(() => sessionStorage.clear());
    await tab.evaluate(() => new Promise((resolve, reject) => {
      Object.assign(indexedDB.deleteDatabase('mailroom /'), { onsuccess: resolve, onerror: reject });
    }));
    await page.goto('about:blank');
    await page.goto(await link());
    await page.getByRole('heading', { name: 'Sign in as eve?' }).waitFor();
    await operator.button('Cancel').click();
    await page.getByRole('heading', { name: 'Sign in to Mailroom' }).waitFor();
  });

  test('a new tab takes the token of a tab that answers late, unless it has got another one', async (t) => {
    const { server, operator } = await arrive(t);
    const { page } = operator;
    await page.goto(`${server.url}/`);
    await page.getByLabel('Or paste a token').fill(server.token);
    await page.keyboard.press('Enter');
    await page.locator('nav footer').getByText('admin, with a token', { exact: true }).waitFor();
    await page.evaluate(() => { // the tab is in the background of a busy machine
      const post = BroadcastChannel.prototype.postMessage;
      const held = [];
      BroadcastChannel.prototype.postMessage = function hold(message) { held.push(() => post.call(this, message)); };
      window.release = () => { for (const send of held.splice(0)) send(); };
    });
    const tabs = [];
    t.after(() => Promise.all(tabs.map((tab) => tab.close())));
    for (const address of ['/', '/chat', '/']) {
      const tab = await page.context().newPage();
      tabs.push(tab);
      await tab.goto(server.url + address);
      await tab.locator('input[type=password]').waitFor();
    }
    const [console, chat, other] = tabs;
    const eve = JSON.parse(await server.command('token', 'create', 'eve', '--scope', 'read', '-o', 'json')).token;
    await other.getByLabel('Or paste a token').fill(eve);
    await other.keyboard.press('Enter');
    await other.locator('nav footer').getByText('eve, with a token', { exact: true }).waitFor();
    await page.evaluate(() => window.release());
    await console.locator('nav footer').getByText('admin, with a token', { exact: true }).waitFor();
    await chat.locator('#door').waitFor({ state: 'hidden' });
    assert.equal(await chat.evaluate(() => sessionStorage.getItem('mailroom.token')), server.token);
    await other.reload();
    await other.locator('nav footer').getByText('eve, with a token', { exact: true }).waitFor();
  });

  test('who signs in or out at one page does so at the others of the browser', async (t) => {
    const { server, operator } = await arrive(t);
    const { page } = operator;
    const chat = await page.context().newPage();
    const other = await page.context().newPage();
    t.after(() => Promise.all([chat.close(), other.close()]));
    await chat.goto(`${server.url}/chat`);
    await chat.getByText('it prints a link that signs this browser in').waitFor();
    await other.goto(`${server.url}/#/runs`);
    await other.getByRole('heading', { name: 'Sign in to Mailroom' }).waitFor();
    await signIn(page, (await server.command('open')).trim());
    await chat.locator('#door').waitFor({ state: 'hidden' });
    await chat.locator('#who').getByText('admin', { exact: true }).waitFor();
    await other.getByRole('heading', { name: 'Runs' }).waitFor();
    await chat.getByRole('button', { name: 'Sign out', exact: true }).click();
    for (const tab of [page, other]) await tab.getByRole('alert').getByText('You signed out in another tab.').waitFor();
    await chat.locator('#door').waitFor();
    assert.equal((await page.context().cookies()).length, 0, 'the session goes on');
    await chat.getByLabel('Or paste a token').fill((await server.command('token', 'create', 'blind', '--scope', 'submit')).trim());
    await chat.keyboard.press('Enter');
    await chat.getByRole('alert').getByText('This token may not read threads.').waitFor();
  });

  test('a page that a server does not answer waits for it', async (t) => {
    const { server, operator } = await arrive(t);
    const { page } = operator;
    await operator.enter();
    for (const [address, sign] of [['/', () => page.getByRole('heading', { name: 'Overview' })], ['/chat', () => page.locator('#who').getByText('admin', { exact: true })]]) {
      const cut = (route) => route.abort();
      await page.route('**/v1/**', cut);
      await page.goto(server.url + address);
      if (address === '/') await page.getByText('The server has not answered yet.').waitFor();
      else await page.locator('#link-text').getByText('Connecting').waitFor();
      assert.equal(await page.locator('input[type=password]:visible').count(), 0);
      await page.unroute('**/v1/**', cut);
      await sign().waitFor();
    }
  });

  test('charts show the runs that ended, of a range and of an agent', async (t) => {
    const { operator, client } = await arrive(t);
    await populate(client);
    await operator.enter();
    const { page } = operator;
    const ended = page.locator('figure', { hasText: 'Ended' });
    await ended.getByText(/^\d+ ended, 1 failed( \(\d+(\.\d+)?%\))?, 0 cancelled$/).waitFor();
    await operator.button('Hour').click();
    await page.getByLabel('Agent').selectOption('broken');
    await ended.getByText('1 ended, 1 failed, 0 cancelled').waitFor();
    await page.locator('figure', { hasText: 'Start delay' }).getByText(/on average, 9 of 10 within/).waitFor();
    assert.match(page.url(), /overview\?range=hour&agent=broken$/);
    await page.reload();
    await ended.getByText('1 ended, 1 failed, 0 cancelled').waitFor();
    const failed = [];
    for (const bar of [0.75, 1.75, 2.75]) { // of 60, from the right; a minute may have passed since the run ended
      const { width, height } = await ended.locator('.u-over').boundingBox();
      await ended.locator('.u-over').hover({ position: { x: width * (1 - bar / 60), y: height / 2 } }); // wherever it is by now
      await page.evaluate(() => new Promise((drawn) => { requestAnimationFrame(() => requestAnimationFrame(drawn)); }));
      failed.push(await ended.locator('.u-series', { hasText: 'Failed' }).locator('.u-value').innerText());
    }
    assert.deepEqual(failed.filter((text) => text !== '0'), ['1'], `the bars have ${failed}`);
    await page.getByLabel('Agent').selectOption('echo');
    await ended.getByText(/^\d+ ended, 0 failed/).waitFor();
    await operator.shot('console-charts');
  });

  test('messages are found by their words', async (t) => {
    const { operator, client } = await arrive(t);
    await populate(client);
    const { page } = operator;
    await operator.enter();
    await page.keyboard.press('g');
    await page.keyboard.press('s');
    while (!(await client.search({ q: 'message' })).complete); // the index follows the log
    await page.getByLabel('Words of a message').fill('Message 7');
    await page.keyboard.press('Enter');
    const found = page.locator('.found .card');
    await found.first().waitFor();
    assert.deepEqual(await found.locator('.thread').allInnerTexts(), ['thread-7', 'thread-7']);
    assert.deepEqual(await found.first().locator('mark').allInnerTexts(), ['message', '7']);
    await page.getByLabel('Words of a message').fill('message');
    await operator.button('Search').click();
    await page.getByText(/^[2-5]\d found, there may be older ones\.$/).waitFor(); // 20, or more if the server had less time for a page
    for (let last = { count: 0, more: true }; last.more; assert.ok(last.more || last.count === 60, `${last.count} found`)) {
      if (last.count > 0) await operator.button('Show more').click();
      last = await (await page.waitForFunction((before) => {
        const [, count, more] = /^(\d+) found(, there may be older ones)?\.$/.exec(document.querySelector('[role="status"].hint').textContent) ?? [];
        return (Number(count) > before || (count && !more)) && { count: Number(count), more: Boolean(more) };
      }, last.count)).jsonValue();
    }
    await page.getByLabel('Words of a message').fill('onerror npm');
    await operator.button('Search').click();
    await page.getByText('No message has all of these words').waitFor();
    await page.getByLabel('Words of a message').fill('onerror');
    await operator.button('Search').click();
    await found.first().waitFor();
    assert.equal(await page.title(), 'Search · Mailroom', 'a message was run');
    await operator.shot('console-search');
    await page.goBack();
    await page.getByText('No message has all of these words').waitFor();
  });

  test('issues are shown as a board', async (t) => {
    const issue = (id, status, more = {}) => JSON.stringify({ id, title: `Title of ${id}`, status, priority: 2, issue_type: 'task', created_at: '2026-01-02T03:04:05Z', updated_at: '2026-01-02T03:04:05Z', ...more });
    const server = await open(t, (shared) => {
      mkdirSync(`${shared}/.beads`);
      writeFileSync(`${shared}/.beads/issues.jsonl`, `${[
        issue('x-1', 'open', { title: HOSTILE, labels: ['web', HOSTILE.slice(0, 40)], priority: 0 }),
        issue('x-2', 'open', { dependencies: [{ issue_id: 'x-2', depends_on_id: 'x-1', type: 'blocks' }] }),
        issue('x-3', 'in_progress', { assignee: 'ann' }), issue('x-4', 'closed', { closed_at: '2026-01-02T03:04:05Z' }),
      ].join('\n')}\n`);
      return `${config}[tracker]\nfolder = ${JSON.stringify(shared)}\nagent = "echo"\ntypes = ["none"]\n`;
    });
    const operator = await visit(t, server);
    await operator.enter();
    const { page } = operator;
    await page.getByRole('link', { name: 'Issues' }).click();
    const column = (name) => page.getByRole('region', { name });
    await column('Ready').getByText('<img src=x').first().waitFor();
    await column('Blocked').getByText('after x-1').waitFor();
    await column('In progress').getByText('ann').waitFor();
    await column('Closed').getByText('Title of x-4').waitFor();
    for (const [colorScheme, width] of [['light', 1600], ['dark', 390]]) {
      await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' });
      await page.setViewportSize({ width, height: 800 });
      assert.deepEqual(await violations(page), [], `at ${width} in ${colorScheme}`);
      assert.ok(await page.evaluate(() => document.documentElement.scrollWidth - innerWidth) <= 0, `too wide at ${width}`);
      await operator.shot(`console-issues-${width}-${colorScheme}`);
    }
    assert.equal(await page.title(), 'Issues · Mailroom', 'a title was run');
  });

  test('a question is found and approved with the keyboard alone', async (t) => {
    const { operator, client } = await arrive(t);
    const { asked } = await populate(client);
    await operator.enter();
    await operator.page.keyboard.press('g');
    await operator.page.keyboard.press('i');
    await operator.page.locator('.tickets').getByText('May I send this postcard?').waitFor();
    await operator.page.keyboard.press('j');
    await operator.page.keyboard.press('a');
    await operator.page.locator('.notice').getByText('Approved').waitFor();
    for await (const _ of client.follow({ run: asked.run }));
    assert.equal((await client.run(asked.run)).status, 'completed');
    await operator.page.getByText('Nothing waits for you').waitFor();
  });

  test('of two operators, one decides and the other learns who', async (t) => {
    const { server, operator, client } = await arrive(t);
    const { asked } = await populate(client);
    await operator.enter('inbox');
    const card = operator.page.locator('.tickets .card');
    await card.waitFor();
    const [ticket] = (await client.tickets({ q: `run:${asked.run} state:open` })).items.filter(({ kind }) => kind === 'approval');
    // The other one decides while this one's stream is cut off.
    await operator.page.route('**/v1/tickets?*', (route) => route.abort());
    await new Mailroom(server).decide(ticket.id, { decision: 'deny', digest: ticket.digest, reason: 'not today' });
    await card.getByRole('button', { name: 'Approve' }).click();
    await operator.page.locator('.notice').getByText('Denied by admin before you.').waitFor();
    assert.equal((await client.ticket(ticket.id)).decision, 'deny');
  });

  test('the pages go on after the server was killed', async (t) => {
    const { server, operator, client } = await arrive(t);
    await populate(client);
    await operator.enter('runs');
    await operator.page.getByText('message 29').waitFor();
    await operator.live();
    await server.kill();
    await operator.page.locator('nav .connection').getByText('Reconnecting').waitFor();
    await server.start();
    const { run } = await new Mailroom(server).send({ thread: 'after', text: 'hello' });
    await operator.live();
    await operator.page.locator('.row', { hasText: 'hello' }).getByText('completed').waitFor();
    assert.ok(run);
  });

  test('failures are grouped, and those of a group are retried', async (t) => {
    const { operator, client } = await arrive(t);
    for (let i = 0; i < 12; i++) await client.send({ thread: `f${i}`, text: 'x', agent: 'broken', max_attempts: 1 });
    await operator.enter('failures');
    await operator.page.locator('.groups .number').getByText('12', { exact: true }).waitFor();
    await operator.button('Retry…').click();
    await operator.page.getByText('matches 12 failed and cancelled runs.').waitFor();
    await operator.button('Retry 12 runs').click();
    await operator.page.getByText('12 of 12 retried.').waitFor();
    await operator.button('Close').click();
    const retried = (await client.runs({ q: 'agent:broken', limit: 500 })).items.filter(({ attempt, status }) => attempt > 1 || status !== 'failed');
    assert.equal(retried.length, 12);
  });

  test('with 500 agents and 101 failures, the cause is found and the runs are retried in five clicks', async (t) => {
    const others = Array.from({ length: 499 }, (_, i) => `[agents.a${i}]\nkind = "echo"\npace = "0s"\n`).join('');
    const fails = 'test -e "$GATE" || { echo "no licence for host $$" >&2; exit 1; }; cat';
    const server = await open(t, (folder) => `${others}[agents.coder]\nkind = "exec"\ncommand = ["sh", "-c", '${fails}']\nenv = { GATE = "${folder}/gate" }\n`);
    const client = senderOf(server);
    await Promise.all(Array.from({ length: 101 }, (_, i) => client.send({ thread: `c${i}`, text: 'build it', agent: 'coder', max_attempts: 1 })));
    await Promise.all(Array.from({ length: 499 }, (_, i) => client.send({ thread: `o${i}`, text: 'hello', agent: `a${i}` })));
    const operator = await visit(t, server);
    await operator.enter();
    const { page } = operator;
    let clicks = 0;
    const click = (target) => { clicks++; return target.click(); };
    await click(page.getByRole('link', { name: 'Failures' }));
    await page.locator('.groups .number').getByText('101', { exact: true }).waitFor();
    await page.locator('.groups .lead').getByText('no licence for host').waitFor(); // the cause
    await writeFile(`${server.shared}/gate`, ''); // is mended
    await click(operator.button('Retry…'));
    await click(operator.button('Retry 101 runs'));
    await page.getByText('101 of 101 retried.').waitFor();
    await click(operator.button('Close'));
    await page.getByText('No failed runs').first().waitFor();
    await click(page.getByRole('link', { name: 'Overview' }));
    await page.getByText('Nothing needs you: no open question, no failed run').waitFor();
    await page.locator('.now').getByText('600 completed').waitFor();
    assert.equal(clicks, 5);
  });

  test('an agent is paused and resumed', async (t) => {
    const { operator, client } = await arrive(t);
    await operator.enter('agents');
    await operator.button('Pause echo').click();
    await operator.page.getByLabel('Reason (optional)').fill('costs');
    await operator.button('Pause').click();
    await operator.page.locator('tr', { hasText: 'echo' }).getByText('paused').waitFor();
    await client.send({ thread: 'paused', text: 'x' });
    await operator.button('Resume echo').click();
    await operator.page.locator('tr', { hasText: 'echo' }).getByText('available').waitFor();
    const echo = (await client.agents()).find(({ name }) => name === 'echo');
    assert.equal(echo.paused, null);
    assert.deepEqual(echo.retry, { attempts: 5, first: '5s', factor: 5, most: '10m', outage_most: '5m', outage: '24h', max_crashes: 3, permanent_exits: [], unavailable_exits: [] });
    await operator.page.getByRole('link', { name: 'echo', exact: true }).click();
    await operator.page.getByText('at most 5 attempts, 5s to 10m apart; an outage for 24h; 3 lost workers in a row').waitFor();
  });

  test('hostile content stays text', async (t) => {
    const { operator, client } = await arrive(t);
    const { hostile } = await populate(client);
    await operator.enter(`run/${hostile.run}`);
    const { page } = operator;
    await page.locator('main .card').first().waitFor();
    await page.getByText('document.title=1').first().waitFor();
    await operator.go('runs?q=thread%3Ahostile');
    await page.locator('.row').waitFor();
    assert.equal(await page.locator('main img').count(), 0);
    assert.ok(!(await page.title()).startsWith('1'));
    const text = await page.locator('main').textContent();
    assert.ok(!text.includes('\u202e'), 'a character that changes the direction of text is in the page');
  });

  test('of a long list only the visible rows are in the page', async (t) => {
    const { operator, client } = await arrive(t);
    const sent = [];
    for (let i = 0; i < 600; i++) sent.push(client.send({ thread: `long-${i % 20}`, text: `message ${i}` }));
    await Promise.all(sent);
    await operator.enter('runs');
    const { page } = operator;
    const rows = page.locator('.rows .scroll');
    await rows.locator('.row').first().waitFor();
    for (let seen = 0; seen < 600;) {
      await rows.evaluate((node) => { node.scrollTop = node.scrollHeight; });
      const now = await page.waitForFunction((before) => {
        const last = Math.max(...[...document.querySelectorAll('.row')].map((row) => Number(row.getAttribute('aria-rowindex')) - 1));
        return (last > before || last >= 600) && last;
      }, seen);
      seen = await now.jsonValue();
      assert.ok(await rows.locator('.row').count() < 100, 'too many rows are in the page');
    }
    await page.locator('.count').getByText('600 runs').waitFor();
  });

  test('console and chat share the session, also below a path prefix of a proxy', async (t) => {
    const { server, operator, client } = await arrive(t);
    await populate(client);
    const url = await below(t, server.url, '/mail/room');
    const secret = (await server.command('open')).trim().split('#')[1];
    await signIn(operator.page, `${url}/#${secret}`);
    await operator.page.getByRole('heading', { name: 'Overview' }).waitFor();
    await operator.live();
    await operator.go('threads');
    await operator.page.getByRole('link', { name: 'message 29' }).click();
    await operator.page.locator('.message.assistant').getByText('message 29').waitFor();
    assert.equal(new URL(operator.page.url()).pathname, '/mail/room/chat');
    await operator.page.getByRole('link', { name: 'Mailroom' }).click();
    await operator.page.locator('main h1').waitFor();
  });

  test('the session of a conversation is dropped on the page of its run', async (t) => {
    const { operator, client } = await arrive(t);
    const { failed } = await populate(client);
    const { page } = operator;
    await operator.enter(`run/${failed.run}`);
    const [request] = await Promise.all([
      page.waitForRequest((sent) => sent.method() === 'PATCH'),
      page.getByRole('button', { name: /^Drop the session/ }).click(),
    ]);
    assert.deepEqual(request.postDataJSON(), { drop_session: true });
    assert.equal((await request.response()).status(), 200);
    await page.getByText('The next run of the conversation begins a new session').waitFor();
    assert.equal(await page.getByRole('button', { name: /^Drop the session/ }).isDisabled(), true);
  });

  test('a page offers only what its user may do', async (t) => {
    const { server, operator, client } = await arrive(t);
    const { failed } = await populate(client);
    const { token } = JSON.parse(await server.command('token', 'limited', '--scope', 'read', '-o', 'json'));
    await operator.page.goto(`${server.url}/`);
    await operator.page.getByLabel('Or paste a token').fill(token);
    await operator.page.keyboard.press('Enter');
    await operator.page.getByRole('heading', { name: 'Overview' }).waitFor();
    assert.equal(await operator.page.getByRole('link', { name: /Issues/ }).count(), 0);
    await operator.go(`run/${failed.run}`);
    await operator.page.locator('main .failure').waitFor();
    assert.equal(await operator.button('Retry').count(), 0);
    await operator.go('inbox');
    await operator.page.getByText('it needs the scope decide').waitFor();
    assert.equal(await operator.button('Approve').count(), 0);
  });
});
