// The list of schedules and the page of one.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { open } from '../../clients/js/test/server.js';
import { isSilent } from '../console/silent.js';
import { inZone, offered, timesOf } from '../console/when.js';
import { colorRules, violations } from './axe.js';
import { config, HOSTILE, operators } from './operator.js';
import { senderOf } from './sender.js';

const { visit, arrive } = operators();

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

test('times are said in words, and what has none stays as it is', () => {
  for (const [cron, want] of [
    ['0 7 * * 1-5', 'weekdays at 07:00'], ['30 9 * * *', 'every day at 09:30'], ['0 9,17 * * mon,WED', 'Mondays and Wednesdays at 09:00 and 17:00'],
    ['0 8 1,15 * *', 'day 1 and 15 of each month at 08:00'], ['0 0 L * *', 'the last day of each month at 00:00'], ['0 10 * * 6,0', 'weekends at 10:00'],
    ['*/30 * * * *', 'every 30 minutes'], ['*/5 * * * 1-5', 'every 5 minutes, weekdays'], ['0 * * * *', 'every hour'], ['15 */2 * * *', 'every 2 hours at :15'],
    ['0 6 * * fri-mon', 'Mondays, Fridays, Saturdays and Sundays at 06:00'], ['@daily', 'every day at 00:00'], ['* * * * 0-7', 'every minute'],
    ['0 7 13 * 5', '0 7 13 * 5'], ['0 7 * 6 *', '0 7 * 6 *'], ['0 9 * * 5#3', '0 9 * * 5#3'], ['0 9-17 * * *', '0 9-17 * * *'], ['7', '7'], ['0 7 * * 1-2-3', '0 7 * * 1-2-3'],
  ]) assert.equal(timesOf({ cron }), want);
  assert.equal(timesOf({ every: '90m' }), 'every 90m');
  assert.equal(timesOf({ at: '2030-01-31T18:00:00Z' }), 'once');
  assert.match(inZone('2026-12-07T06:00:00Z', 'Europe/Berlin'), /07:00/);
  assert.match(inZone('2026-12-07T06:00:00Z', 'No/Where'), /06:00/);
  assert.equal(offered('has 4 fields instead of five; for "every "x" at 7" use "0 7 * * 1-5"'), '0 7 * * 1-5');
  assert.equal(offered('never fires from now on'), '');
});

test('a schedule is made, mended, run, paused, changed and deleted with the keyboard', async (t) => {
  const { operator, client } = await arrive(t);
  const { page } = operator;
  await operator.enter('schedules');
  await page.getByText('No schedules').waitFor();
  await looks(operator, 'schedules-empty');
  const press = async (target) => { // after the page has moved the focus to what it opened
    await target.waitFor();
    await page.evaluate(() => new Promise((done) => { requestAnimationFrame(() => setTimeout(done)); }));
    await target.press('Enter');
  };

  await press(operator.button('New schedule…'));
  await page.getByLabel('Name', { exact: true }).fill('report');
  await page.getByLabel('Minute, hour').fill('every weekday at 7');
  await page.getByLabel('Time zone').fill('Europe/Berlin');
  await page.getByLabel('Message', { exact: true }).fill(`Summarize ${HOSTILE}`);
  await page.getByLabel('Agent (empty').fill('echo');
  await page.getByLabel('Thread (empty').fill('inbox');
  await press(operator.button('Save'));
  await page.getByRole('alert').getByText('cron: has 4 fields instead of five').waitFor();
  await looks(operator, 'schedule-refused');
  await press(page.getByRole('button', { name: 'Use 0 7 * * 1-5' }));
  assert.equal(await page.getByLabel('Minute, hour').inputValue(), '0 7 * * 1-5');
  await page.getByText('Policies').click();
  await page.getByLabel('If a run of the schedule is open').selectOption('one');
  await looks(operator, 'schedule-form');
  await press(operator.button('Save'));

  await page.getByRole('heading', { name: 'report' }).waitFor();
  await page.getByText('weekdays at 07:00').waitFor();
  assert.equal(await page.locator('ol.times').first().locator('li').count(), 10);
  const made = await client.schedule('report');
  assert.equal(made.spec.overlap, 'one');
  assert.equal(made.spec.zone, 'Europe/Berlin');

  await press(operator.button('Run now'));
  await page.locator('ol.times').nth(1).getByText('completed').waitFor();
  assert.equal((await client.schedule('report')).sent, 1);
  await press(operator.button('Pause…'));
  await page.getByLabel('Note (optional)').fill('holidays');
  await press(operator.button('Pause'));
  await page.locator('.state').getByText('holidays').waitFor();
  await looks(operator, 'schedule');
  await operator.go('schedules');
  const row = page.getByRole('region', { name: 'Schedules' }).locator('tbody tr');
  assert.match(await row.innerText(), /report.*weekdays at 07:00.*paused.*admin.*holidays.*completed/s);
  await press(row.getByRole('link', { name: 'report' }));
  await press(operator.button('Resume'));
  await page.locator('.state').getByText('on', { exact: true }).waitFor();

  await press(operator.button('Change…'));
  await page.getByLabel('At an interval').check();
  await page.getByLabel('Every', { exact: true }).fill('10s');
  await press(operator.button('Save'));
  await page.getByRole('alert').getByText('every: is shorter than 1m0s').waitFor();
  await page.getByLabel('Every', { exact: true }).fill('90m');
  await press(operator.button('Save'));
  await page.getByText('every 1h30m').first().waitFor();
  assert.equal((await client.schedule('report')).spec.overlap, 'one');
  await page.locator('ol.times').nth(1).getByRole('link').click();
  await page.getByRole('heading', { name: 'Summarize' }).waitFor(); // its message; the page says Run only until it has loaded

  await operator.go('schedules');
  await press(operator.button('New schedule…'));
  await page.getByLabel('Name', { exact: true }).fill('report');
  await page.getByLabel('Minute, hour').fill('0 7 * * *');
  await page.getByLabel('Message', { exact: true }).fill('again');
  await press(operator.button('Save'));
  await page.getByRole('alert').getByText('There is a schedule of this name').waitFor();
  await press(operator.button('Cancel'));
  await press(row.getByRole('link', { name: 'report' }));
  await press(operator.button('Delete…'));
  await press(operator.button('Keep'));
  await press(operator.button('Delete…'));
  await press(operator.button('Delete it with its log'));
  await page.getByText('No schedules').waitFor();
});

test('of 500 schedules one is found, with few requests, and those of the configuration are not changed here', async (t) => {
  const tables = Array.from({ length: 500 }, (_, i) => `[schedules.s${i}]\nevery = "24h"\nthread = "t${i}"\nagent = "echo"\ntext = "go"\n`).join('');
  const server = await open(t, config + tables);
  const client = senderOf(server);
  for (;;) {
    let n = 0;
    for (let cursor; ;) {
      const found = await client.schedules({ cursor, limit: 100 });
      n += found.items.length;
      if (!(cursor = found.next)) break;
    }
    if (n === 500) break;
  }
  await client.pauseSchedule('s77', { note: 'broken' });
  const operator = await visit(t, server);
  const { page } = operator;
  await operator.enter();
  const asked = [];
  page.on('request', (request) => { if (request.url().includes('/v1/schedules')) asked.push(request.url()); });
  // A load has 5 requests, and there is one at first, one as the stream opens, and one for entries in each second.
  const few = (began) => assert.ok(asked.length <= 5 * (2 + Math.ceil((Date.now() - began) / 1000)), `${asked.length} requests`);
  let began = Date.now();
  await operator.go('schedules');
  await page.getByText('500 schedules').waitFor();
  few(began);
  await looks(operator, 'schedules-500');
  await operator.button('Paused 1').click();
  await page.getByText('1 of 500 schedules').waitFor();
  await page.getByRole('link', { name: 's77' }).click();
  await page.getByText('It is in mailroom.toml').waitFor();
  assert.equal(await operator.button('Change…').count(), 0);
  assert.equal(await operator.button('Delete…').count(), 0);
  assert.ok(await operator.button('Resume').isVisible());

  asked.length = 0;
  began = Date.now();
  await operator.go('schedules?q=s499');
  await page.getByText('1 of 500 schedules').waitFor();
  await client.runSchedule('s499');
  await page.getByRole('region', { name: 'Schedules' }).getByText('completed').waitFor();
  few(began);
});

test('a token sees its own schedules, and the page asks for a sign-in when its session ends', async (t) => {
  const { operator, server, client } = await arrive(t);
  const { page } = operator;
  await client.putSchedule('mine', { every: '1h', agent: 'echo', text: 'go' });
  const ann = await client.createToken({ name: 'ann', scopes: ['read', 'submit'] });
  await senderOf({ ...server, token: ann.token }).putSchedule('hers', { cron: '0 7 * * *', agent: 'echo', text: 'go' });
  await operator.enter('schedules');
  const rows = page.getByRole('region', { name: 'Schedules' }).locator('tbody tr');
  await rows.nth(1).waitFor();
  assert.match(await rows.nth(0).innerText(), /hers of ann/);
  await rows.nth(0).getByRole('link').click();
  await page.getByRole('heading', { name: 'hers' }).waitFor();
  await operator.button('Run now').waitFor();
  assert.equal(await operator.button('Change…').count(), 0, 'it has the rights of ann');
  await client.revokeToken('ann');
  await operator.button('Run now').click();
  await page.getByRole('alert').getByText('token ann').waitFor();

  await operator.button('Sign out').click();
  await page.getByLabel('Or paste a token').waitFor();
  assert.equal(await page.getByText('hers').count(), 0);
});

test('own schedules of a thread are marked in the list and on their page, and a reply of the silent word is dimmed', async (t) => {
  const { operator, server, client } = await arrive(t);
  const { page } = operator;
  await client.putSchedule('usual', { every: '1h', agent: 'echo', text: 'go' });
  const { run: first } = await client.send({ thread: 'desk', agent: 'echo', text: 'hello' });
  for await (const _ of client.follow({ run: first }));
  const made = await fetch(new URL('/v1/schedules', server.url), {
    method: 'POST', headers: { Authorization: `Bearer ${server.token}`, 'Content-Type': 'application/json' },
    body: JSON.stringify({ name: 'heartbeat', own: true, spec: { every: '1h', thread: 'desk', agent: 'echo', text: 'HEARTBEAT_OK', silent_word: 'HEARTBEAT_OK' } }),
  });
  assert.equal(made.status, 200);
  await operator.enter('schedules');
  const rows = page.getByRole('region', { name: 'Schedules' }).locator('tbody tr');
  await rows.nth(1).waitFor();
  assert.match(await rows.nth(0).innerText(), /own schedule of thread desk/);
  assert.doesNotMatch(await rows.nth(1).innerText(), /own schedule/);
  await looks(operator, 'schedules-own');
  await rows.nth(0).getByRole('link').click();
  await page.getByText('An own schedule of its thread').waitFor();
  assert.equal(await operator.button('Change…').count(), 0, 'its thread changes it');
  await operator.button('Run now').click();
  const [link] = [page.locator('ol.times a').last()];
  await page.getByText('completed').first().waitFor();
  await link.click();
  await page.locator('.card.reply.silent').getByText('no chat gets this reply').waitFor();
  await looks(operator, 'run-silent');
  await operator.go(`run/${first}`);
  await page.locator('.card.reply').getByText('hello').waitFor();
  assert.equal(await page.locator('.card.reply.silent').count(), 0);
});

test('a silent reply says its word and nothing else, as in internal/display/silent_test.go', () => {
  for (const [text, want] of [
    ['HEARTBEAT_OK', true], ['**HEARTBEAT_OK**', true], ['\n`HEARTBEAT_OK`.\n', true], ['heartbeat_ok!', true], ['✅ HEARTBEAT_OK', true],
    ['\u200bHEARTBEAT_OK\ufeff', true], ['', false], ['HEARTBEAT', false], ['HEARTBEAT OK', false], ['HEARTBEAT_OK, but the disk is full', false],
    ['HEARTBEAT_OK2', false], [`HEARTBEAT_OK${'.'.repeat(2000)}`, false],
  ]) assert.equal(isSilent(text, 'HEARTBEAT_OK'), want, text);
  assert.ok(!isSilent('', '') && !isSilent('...', '...') && !isSilent('x', '') && isSilent('silent', '[SILENT]'));
});
