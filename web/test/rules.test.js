import assert from 'node:assert/strict';
import { mkdir } from 'node:fs/promises';
import { after, before, describe, test } from 'node:test';

import { Mailroom } from '../../clients/js/mailroom.js';
import { open } from '../../clients/js/test/server.js';
import { colorRules, violations } from './axe.js';
import { launch, openPage, signIn } from './browser.js';
import { ntfy } from './ntfy.js';
import { shoot, shots } from './person.js';

const config = (url) => `
[agents.tour]
pace = "0s"
[targets.phone]
kind = "ntfy"
url = "${url}"
topic = "alerts"
allow = ["127.0.0.1"]
tokens = ["ann"]
[targets.wall]
kind = "ntfy"
url = "${url}"
topic = "wall"
allow = ["127.0.0.1"]
[rules.morning]
when = ["digest"]
to = ["wall"]
`;

describe('the rules of alerts', () => {
  let context;
  let close;

  before(async () => {
    await mkdir(shots, { recursive: true });
    [context, close] = await launch({ reducedMotion: 'reduce' });
  });
  after(() => close());

  async function arrive(t) {
    const phone = await ntfy(t);
    const server = await open(t, config(phone.url));
    const page = await openPage(t, context);
    return { phone, server, page, client: new Mailroom(server) };
  }

  async function enter(page, server) {
    await signIn(page, (await server.command('open')).trim());
    await page.getByRole('navigation', { name: 'Pages' }).waitFor({ state: 'attached' });
    await page.evaluate(() => { location.hash = '#/alerts'; });
    await page.getByRole('heading', { name: 'Alerts', exact: true }).waitFor();
  }

  const row = (page, name) => page.getByRole('region', { name: 'Rules' }).getByRole('row').filter({ hasText: name });

  test('are made, changed and removed on the page, and hold at once', async (t) => {
    const { phone, server, page, client } = await arrive(t);
    await enter(page, server);
    await row(page, 'morning').getByText('in the configuration').waitFor();
    await page.getByRole('button', { name: 'New rule…' }).click();
    await page.getByLabel('Name').fill('night shift');
    await page.getByRole('button', { name: 'Save' }).click();
    assert.equal((await client.alerts()).rules.length, 1, 'a name with a space is not sent');
    await page.getByLabel('Name').fill('night');
    await page.getByLabel('failed').check();
    await page.getByLabel('When it is down, to').selectOption('wall');
    await page.getByLabel('Text that leaves').selectOption('full');
    assert.deepEqual(await violations(page), []);
    await shoot(page, 'rule');
    await page.getByRole('button', { name: 'Save' }).click();
    await row(page, 'night').getByText('an agent asks, a run failed for good').waitFor();
    const [, made] = (await client.alerts()).rules;
    const { zone, ...rest } = made;
    assert.deepEqual(rest, { name: 'night', when: ['ticket', 'failed'], to: ['phone', 'wall'], text: 'full', digest: '08:00' });
    assert.equal(zone, await page.evaluate(() => Intl.DateTimeFormat().resolvedOptions().timeZone));
    await client.send({ thread: 'web', text: 'show me', agent: 'tour' });
    const told = await phone.next();
    assert.equal(told.title, 'tour asks for an approval');
    assert.equal(told.topic, 'alerts');
    for (const [width, height] of [[390, 844], [820, 1180], [1440, 900]]) {
      await page.setViewportSize({ width, height });
      for (const [colorScheme, rules] of [['light'], ['dark', colorRules]]) {
        await page.emulateMedia({ colorScheme });
        assert.deepEqual(await violations(page, rules), [], `${width} ${colorScheme}`);
        assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), `it fits ${width}`);
      }
      await shoot(page, `alerts-${width}`, { fullPage: true });
    }
    await row(page, 'night').getByRole('button', { name: 'Change night' }).click();
    await page.getByLabel('Quiet from').fill('22:00');
    await page.getByLabel('Quiet until').fill('07:00');
    await page.getByLabel('Time zone').fill('Europe/Atlantis');
    await page.getByRole('button', { name: 'Save' }).click();
    await page.getByText('must be a time zone').waitFor();
    await page.getByLabel('Time zone').fill('Europe/Berlin');
    await page.getByLabel('Remind of an open question').fill('soon');
    await page.getByRole('button', { name: 'Save' }).click();
    await page.getByText('must be a duration from 1s to 24h').waitFor();
    await page.getByLabel('Remind of an open question').fill('30m');
    await page.getByRole('button', { name: 'Save' }).click();
    await page.getByLabel('Name').waitFor({ state: 'detached' });
    await row(page, 'night').getByText('22:00-07:00').waitFor();
    await row(page, 'night').getByRole('button', { name: 'Change night' }).click();
    await page.getByRole('checkbox', { name: 'digest' }).check();
    await page.getByLabel('Digest each day').fill('14m');
    await page.getByRole('button', { name: 'Save' }).click();
    await page.getByText('the nearest one is "15m"').waitFor();
    await page.getByLabel('Digest each day').fill('15m');
    await page.getByRole('button', { name: 'Save' }).click();
    await row(page, 'night').getByText('every 15m, Europe/Berlin').waitFor();
    for (const width of [1280, 390]) {
      await page.setViewportSize({ width, height: 900 });
      assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), `it fits ${width}`);
      await shoot(page, `alerts-digest-${width}`, { fullPage: true });
    }
    await row(page, 'night').getByText('reminds after 30m').waitFor();
    await row(page, 'night').getByRole('button', { name: 'Remove night' }).click();
    await row(page, 'night').getByRole('button', { name: 'Remove now: night' }).click();
    await row(page, 'night').waitFor({ state: 'detached' });
    assert.equal((await client.alerts()).rules.length, 1);
  });

  test('show what a target does, which is tested and paused there', async (t) => {
    const { phone, server, page } = await arrive(t);
    await enter(page, server);
    await page.getByRole('button', { name: 'Test phone' }).click();
    await page.getByText('It took the message.').waitFor();
    assert.equal((await phone.next()).title, 'Test of Mailroom');
    await page.getByRole('button', { name: 'Pause phone' }).click();
    await page.getByRole('button', { name: 'Resume phone' }).click();
    await page.getByRole('button', { name: 'Pause phone' }).waitFor();
  });

  test('of a token are about its own threads and the targets that it may use', async (t) => {
    const { server, page } = await arrive(t);
    const token = (await server.command('token', 'create', 'ann', '--scope', 'read,submit')).trim();
    await page.goto(`${server.url}/`);
    await page.getByLabel('Token').fill(token);
    await page.keyboard.press('Enter');
    await page.getByRole('navigation', { name: 'Pages' }).waitFor({ state: 'attached' });
    await page.evaluate(() => { location.hash = '#/alerts'; });
    await page.getByRole('button', { name: 'New rule…' }).click();
    assert.deepEqual(await page.getByRole('checkbox').evaluateAll((boxes) => boxes.map(({ value }) => value)), ['ticket', 'failed', 'schedule']);
    assert.deepEqual(await page.getByLabel('To', { exact: true }).locator('option').allTextContents(), ['phone']);
    await page.getByLabel('Name').fill('mine');
    await page.getByRole('button', { name: 'Save' }).click();
    await row(page, 'mine').waitFor();
    assert.deepEqual(await violations(page), []);
    const ann = new Mailroom({ url: server.url, token });
    assert.deepEqual((await ann.alerts()).rules.map(({ name }) => name), ['mine']);
  });
});
