// A real Chromium, for tests.

import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';

// An import would parse the whole library once more, for the names that it exports: 0.14 s in each test file.
const { chromium } = createRequire(import.meta.url)('playwright-core');

const whole = process.env.CHROMIUM ?? ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'].find(existsSync);

/**
 * Chromium without what surrounds pages, where Debian has it: the same engine of the same version, in a fifth less processor
 * time. It has no notifications.
 */
const shell = process.env.CHROMIUM ?? ['/usr/lib/chromium/chromium-headless-shell'].find(existsSync) ?? whole;

// With one process for all pages of a host, a page begins in a process that runs.
const args = ['--process-per-site', '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync'];

/** How long a page may take for what a test waits for: minutes, for a machine that does much else. */
const patience = 600_000;

function program(executablePath = shell) {
  if (!executablePath) throw new Error('no Chromium: run make programs, or name another browser in CHROMIUM');
  return { executablePath, args, timeout: patience };
}

/** Starts a browser that the processes started after this share. The function that it returns ends it. */
export async function serveBrowser() {
  const server = await chromium.launchServer(program());
  process.env.MAILROOM_TEST_BROWSER = server.wsEndpoint();
  return () => server.close();
}

/**
 * Opens a new profile in the shared browser, or in a browser of its own if a test file runs alone or needs notifications.
 * The function that it returns too ends it.
 */
export async function launch({ notifications = false, ...options } = {}) {
  const shared = notifications && whole !== shell ? undefined : process.env.MAILROOM_TEST_BROWSER;
  const browser = shared ? await chromium.connect(shared, { timeout: patience }) : await chromium.launch(program(notifications ? whole : shell));
  const context = await browser.newContext({ viewport: { width: 1200, height: 800 }, ...options });
  context.setDefaultTimeout(patience);
  await keepProcess(context);
  return [context, async () => {
    await context.close();
    await browser.close();
  }];
}

/**
 * Opens a page that stays. Without it, Chromium would end its window and the process of the host with the last page of each
 * test, and start both again for the next, which takes as long as to load a page of the console.
 */
async function keepProcess(context) {
  const page = await context.newPage();
  await page.route('http://127.0.0.1/', (route) => route.fulfill({ contentType: 'text/html', body: '' }));
  await page.goto('http://127.0.0.1/'); // the host of all servers of tests
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
    await page.unrouteAll({ behavior: 'ignoreErrors' }); // a handler that still fetches would fail with the page, after the test
    await page.close();
    await context.clearCookies();
    assert.deepEqual(wrong, []);
  });
  return page;
}

/**
 * Holds the requests of a page for a path until release, as a busy server does. asked resolves with the first of them.
 */
export async function hold(page, path) {
  const held = [];
  let holds = true;
  let come;
  const asked = new Promise((resolve) => { come = resolve; });
  await page.route(path, (route) => {
    if (!holds) return route.continue();
    held.push(route);
    return come();
  });
  return {
    asked,
    release() {
      holds = false;
      return Promise.all(held.splice(0).map((route) => route.continue()));
    },
  };
}

/** Opens a link to sign in, and agrees to it. */
export async function signIn(page, link) {
  if (page.url() !== 'about:blank') await page.goto('about:blank'); // a link to the page that is open would only change its hash
  await page.goto(link);
  await page.getByRole('button', { name: 'Sign in', exact: true }).click();
}
