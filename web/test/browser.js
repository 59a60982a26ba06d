// A real Chromium, for tests.

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
