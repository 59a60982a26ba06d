import assert from 'node:assert/strict';
import { mkdir, readFile } from 'node:fs/promises';
import { after, before, describe, test } from 'node:test';

import { Mailroom } from '../../clients/js/mailroom.js';
import { open } from '../../clients/js/test/server.js';
import { violations } from './axe.js';
import { launch, openPage, signIn } from './browser.js';
import { shoot, shots } from './person.js';

describe('the audit log', () => {
  let context;
  let close;

  before(async () => {
    await mkdir(shots, { recursive: true });
    [context, close] = await launch({ reducedMotion: 'reduce', acceptDownloads: true });
  });
  after(() => close());

  test('shows what operators did, finds a time, follows and is exported', async (t) => {
    const server = await open(t);
    const client = new Mailroom(server);
    const page = await openPage(t, context);
    await page.setViewportSize({ width: 1440, height: 900 });
    await client.pauseAgent('echo', { reason: 'costs' });
    await client.resumeAgent('echo');
    await signIn(page, (await server.command('open')).trim());
    await page.getByRole('navigation', { name: 'Pages' }).getByRole('link', { name: 'Audit' }).click();
    const rows = page.getByRole('table', { name: 'Actions' });
    await rows.getByText('Paused agent echo').waitFor();
    await rows.getByText('reason: costs').waitFor();
    await rows.getByText('Signed in').first().waitFor();
    assert.deepEqual(await violations(page), []);
    await shoot(page, 'audit-1440');

    await client.pauseAgent('inbox', { reason: 'seen at once' });
    await rows.getByText('reason: seen at once').waitFor();

    const now = new Date();
    await page.getByLabel('Around').fill(`${String(now.getHours()).padStart(2, '0')}:${String(now.getMinutes()).padStart(2, '0')}`);
    await page.keyboard.press('Enter');
    await page.waitForURL((url) => /q=at:/.test(decodeURIComponent(url.hash)));
    await rows.getByText('Paused agent inbox').waitFor();

    await page.getByRole('searchbox', { name: 'Filter actions' }).fill('action:agent.* actor:admin');
    await page.keyboard.press('Enter');
    await rows.getByText('Signed in').first().waitFor({ state: 'detached' });
    const [file] = await Promise.all([page.waitForEvent('download'), page.getByRole('button', { name: /Export/ }).click()]);
    await file.saveAs(`${shots}audit.jsonl`);
    const lines = (await readFile(`${shots}audit.jsonl`, 'utf8')).trim().split('\n').map((line) => JSON.parse(line));
    assert.deepEqual(lines.map(({ action }) => action), ['agent.pause', 'agent.resume', 'agent.pause']);

    await page.setViewportSize({ width: 390, height: 800 });
    await rows.getByText('Paused agent echo').waitFor();
    assert.deepEqual(await violations(page), []);
    await shoot(page, 'audit-390');
  });
});
