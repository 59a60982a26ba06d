import assert from 'node:assert/strict';
import { mkdir } from 'node:fs/promises';
import { after, before, describe, test } from 'node:test';

import { Mailroom } from '../../clients/js/mailroom.js';
import { open } from '../../clients/js/test/server.js';
import { violations } from './axe.js';
import { launch, openPage, signIn } from './browser.js';
import { shoot, shots } from './person.js';

describe('the tail', () => {
  let context;
  let close;

  before(async () => {
    await mkdir(shots, { recursive: true });
    [context, close] = await launch({ reducedMotion: 'reduce' });
  });
  after(() => close());

  test('shows entries of all threads as they come, pauses, and finds what it shows', async (t) => {
    const server = await open(t);
    const client = new Mailroom(server);
    const page = await openPage(t, context);
    await page.setViewportSize({ width: 1440, height: 900 });
    await signIn(page, (await server.command('open')).trim());
    await page.locator('nav footer').getByText('Live', { exact: true }).waitFor();
    await page.keyboard.press('g');
    await page.keyboard.press('l');
    await page.getByText('Nothing has happened since the page was opened').waitFor();
    const rows = page.getByRole('list', { name: 'Entries, the newest first' }).locator('> li');
    const send = async (thread, text) => {
      const { run } = await client.send({ thread, text, agent: 'echo' });
      for await (const _ of client.follow({ run }));
    };
    await send('first', '<img src=x onerror=alert(1)> one');
    await rows.filter({ hasText: 'Completed' }).filter({ hasText: 'first' }).waitFor();
    assert.equal(await page.locator('main img').count(), 0);
    assert.match(await rows.last().innerText(), /Message\s+first <img src=x onerror=alert\(1\)> one/); // the newest are on top
    assert.deepEqual(await violations(page), []);
    await shoot(page, 'tail-1440');

    await page.getByRole('button', { name: 'Pause', exact: true }).click();
    const shown = await rows.count();
    await send('second', 'two');
    await page.getByRole('status').getByText(/^[1-9]\d* more came$/).waitFor();
    assert.equal(await rows.count(), shown, 'a paused page changes');
    await page.getByRole('button', { name: 'Go on', exact: true }).click();
    await rows.filter({ hasText: 'second' }).first().waitFor();

    await page.getByRole('searchbox').fill('SECOND');
    await page.getByRole('status').getByText(new RegExp(`^[1-9]\\d* of \\d+ entries$`)).waitFor();
    assert.equal(await rows.filter({ hasText: 'first' }).count(), 0);
    await rows.filter({ hasText: 'Completed' }).locator('summary').click();
    await page.getByRole('link', { name: 'second' }).waitFor();
    await page.locator('pre').getByText('"reply": "two"').waitFor();
    await page.getByRole('searchbox').fill('no such words');
    await page.getByText('No shown entry matches.').waitFor();
    await page.getByRole('searchbox').fill('');

    await server.kill();
    await server.start();
    await rows.filter({ hasText: 'entries may be missing here' }).waitFor();
    await page.emulateMedia({ colorScheme: 'dark' });
    await page.setViewportSize({ width: 390, height: 800 });
    assert.deepEqual(await violations(page), []);
    await shoot(page, 'tail-390');
  });
});
