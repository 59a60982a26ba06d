// A real Chromium, for tests.

import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { chromium } from 'playwright-core';

const executablePath = process.env.CHROMIUM ?? ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'].find(existsSync);

/** Starts the browser with nothing in it; the function that is returned too ends it. */
export async function launch(options = {}) {
  if (!executablePath) throw new Error('no Chromium: install it (on Debian: apt-get install chromium), or name it in CHROMIUM');
  const profile = await mkdtemp(join(tmpdir(), 'mailroom-browser-'));
  const context = await chromium.launchPersistentContext(profile, {
    executablePath,
    args: ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync'],
    viewport: { width: 1200, height: 800 },
    ...options,
  });
  context.setDefaultTimeout(15_000);
  return [context, async () => {
    await context.close();
    await rm(profile, { recursive: true, force: true, maxRetries: 5 });
  }];
}

/**
 * Opens an empty page. It closes at the end of the test, which fails if a script of the page threw, or its Content
 * Security Policy refused something.
 */
export async function openPage(t, context) {
  const page = await context.newPage();
  const wrong = [];
  page.on('pageerror', (error) => wrong.push(error.message));
  page.on('console', (message) => message.text().includes('Content Security Policy') && wrong.push(message.text()));
  t.after(async () => {
    await page.close();
    await context.clearCookies();
    assert.deepEqual(wrong, []);
  });
  return page;
}
