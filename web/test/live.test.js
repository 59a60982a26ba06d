// The streams that keep pages up to date, in one tab and in many.

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';

import { operators } from './operator.js';

describe('the stream of a page', () => {
  const { arrive } = operators();

  test('goes on after the server refused it for a while', async (t) => {
    const { operator } = await arrive(t);
    let refusals = 3;
    await operator.page.routeWebSocket('**/v1/ws', (socket) => {
      const server = socket.connectToServer();
      socket.onMessage((text) => {
        const { op, id } = JSON.parse(text);
        if (op === 'subscribe' && refusals-- > 0) socket.send(JSON.stringify({ op: 'error', id, error: { status: 403, code: 'forbidden', detail: 'not now' } }));
        else server.send(text);
      });
    });
    await operator.enter();
    await operator.live();
    assert.ok(refusals < 0, 'nothing was refused');
  });

  test('opens before the page is read, so that the page is read once', async (t) => {
    const { operator, client } = await arrive(t);
    const { page } = operator;
    const asked = [];
    await page.addInitScript(() => { // a slow machine does not end the page's patience with its stream
      const real = setTimeout;
      globalThis.setTimeout = (f, ms, ...rest) => real(f, ms === 400 ? 600_000 : ms, ...rest);
    });
    page.on('request', (request) => { if (request.url().endsWith('/v1/stats')) asked.push(request.url()); });
    await operator.enter('overview');
    await operator.live();
    await client.pauseAgent('echo'); // it waits until the server has answered what was asked before
    await page.getByRole('link', { name: 'Channels' }).click();
    await page.getByRole('heading', { name: 'Channels', exact: true }).waitFor();
    assert.equal(asked.length, 1);
  });

  test('leaves a browser room for other tabs, and for a decision in the last one', async (t) => {
    const { server, operator, client } = await arrive(t);
    await operator.enter();
    const context = operator.page.context();
    const tabs = [operator.page];
    t.after(() => Promise.all(tabs.slice(1).map((tab) => tab.close())));
    for (let n = 1; n < 8; n++) { // browsers allow six connections to a host
      const tab = await context.newPage();
      tabs.push(tab);
      await tab.goto(`${server.url}/${n % 4 === 3 ? 'chat#busy' : '#/inbox'}`);
    }
    const { run } = await client.send({ thread: 'busy', text: 'go', agent: 'tour' });
    for (const [n, tab] of tabs.entries()) {
      if (n % 4 === 3) await tab.locator('#link[data-state="live"]').waitFor();
      else await tab.locator('nav .connection[data-tone="good"]').waitFor({ state: 'attached' });
      assert.equal(await tab.evaluate(async () => (await fetch('healthz')).status), 200);
    }
    for (const n of [3, 7]) await tabs[n].getByRole('button', { name: 'Approve' }).waitFor();
    for (const n of [1, 2, 4, 5, 6]) await tabs[n].getByRole('button', { name: 'Approve' }).waitFor();
    await tabs[6].getByRole('button', { name: 'Approve' }).click();
    await tabs[6].locator('.notice').getByText('Approved').waitFor();
    for await (const _ of client.follow({ run }));
    for (const n of [1, 2, 4, 5]) await tabs[n].getByText('Nothing waits for you').first().waitFor();
  });

  test('ends in a tab that is hidden for a minute, and begins again with the tab', async (t) => {
    const { operator, client } = await arrive(t);
    const { page } = operator;
    const ends = [];
    page.on('websocket', (socket) => ends.push(new Promise((resolve) => { socket.on('close', resolve); })));
    await page.clock.install();
    await operator.enter('inbox');
    await operator.live();
    const show = (hidden) => page.evaluate((now) => {
      Object.defineProperty(document, 'hidden', { get: () => now, configurable: true });
      document.dispatchEvent(new Event('visibilitychange'));
    }, hidden);
    await show(true);
    await page.clock.runFor(120_000);
    await ends.at(-1);
    const { run } = await client.send({ thread: 'asks', text: 'go', agent: 'tour' });
    for await (const _ of client.follow({ run, until: 'waiting' }));
    assert.equal(await operator.button('Approve').count(), 0);
    await show(false);
    await operator.button('Approve').waitFor();
    await operator.live();
  });

  test('is not needed for a decision, which is withdrawn if it cannot be sent', async (t) => {
    const { server, operator, client } = await arrive(t);
    const { page } = operator;
    const { run } = await client.send({ thread: 'asks', text: 'go', agent: 'tour' });
    for await (const _ of client.follow({ run, until: 'waiting' }));
    let stuck = true;
    const held = [];
    await page.route('**/v1/tickets/*', (route) => (stuck && route.request().method() === 'POST' ? held.push(route) : route.continue()));
    await operator.enter('inbox');
    await operator.button('Approve').click();
    await page.getByRole('alert').getByText('it was withdrawn').waitFor();
    await page.goto(`${server.url}/chat#asks`);
    await page.getByRole('button', { name: 'Approve' }).click();
    await page.getByText('it was withdrawn').first().waitFor();
    assert.equal((await client.tickets({ q: 'thread:asks state:open' })).items.length, 1);
    assert.ok(held.length >= 2, 'nothing was held back');
    stuck = false;
    await page.getByRole('button', { name: 'Approve' }).click();
    await page.getByText('Approved by').first().waitFor();
  });
});
