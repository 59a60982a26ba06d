// The web app of examples/chat-page, in a browser, with kills of Mailroom and of the app.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { cp, mkdir, symlink } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';

import { ownPort } from '../../clients/js/test/ports.js';
import { open } from '../../clients/js/test/server.js';
import { launch, openPage } from './browser.js';

const tree = (path) => fileURLToPath(new URL(`../../${path}`, import.meta.url));

/** The app, as `npm install` and `npm start` in the folder of the example start it. */
class App {
  constructor(folder, env, port) { [this.folder, this.env, this.port] = [folder, env, port]; }

  async start() {
    this.process = spawn(process.execPath, ['server.js'], { cwd: this.folder, env: { ...process.env, ...this.env, PORT: String(this.port) }, stdio: ['ignore', 'pipe', 'inherit'] });
    const [line] = await once(this.process.stdout.setEncoding('utf8'), 'data');
    this.url = line.trim();
  }

  async kill() {
    const gone = once(this.process, 'exit');
    this.process.kill('SIGKILL');
    await gone;
  }
}

async function openApp(t, mailroom) {
  const folder = join(mailroom.shared, 'chat-page');
  await cp(tree('examples/chat-page'), folder, { recursive: true, filter: (path) => !path.includes('node_modules') });
  await mkdir(join(folder, 'node_modules'));
  await symlink(tree('clients/js'), join(folder, 'node_modules', 'mailroom'));
  const token = (await mailroom.command('token', 'create', 'chat-page', '--scope', 'read,submit,decide')).trim();
  const app = new App(folder, { MAILROOM_URL: mailroom.url, MAILROOM_TOKEN: token }, await ownPort());
  await app.start();
  t.after(() => app.kill());
  return app;
}

async function signIn(page, app, name, password) {
  await page.goto(app.url);
  await page.getByLabel('Name').fill(name);
  await page.getByLabel('Password').fill(password);
  await page.getByRole('button', { name: 'Sign in' }).click();
}

async function say(page, text) {
  await page.getByLabel('Message').fill(text);
  await page.getByRole('button', { name: 'Send' }).click();
}

describe('the example of a chat page', () => {
  let context;
  let close;

  before(async () => { [context, close] = await launch(); });
  after(() => close());

  test('goes on after kills of Mailroom and of the app, and after a reload', async (t) => {
    const mailroom = await open(t, '[agents.tour]\nkind = "tour"\npace = "40ms"\n');
    const app = await openApp(t, mailroom);
    const page = await openPage(t, context);
    const resumed = [];
    page.on('request', (request) => {
      const last = request.headers()['last-event-id'];
      if (last) resumed.push(last);
    });
    await signIn(page, app, 'ann', 'tiles');
    await say(page, 'show me');
    const reply = page.locator('li.assistant').first();
    await reply.waitFor();
    await mailroom.kill();
    await page.getByText('Connecting …').waitFor();
    await mailroom.start();
    await page.getByText('Connecting …').waitFor({ state: 'hidden' });
    await app.kill();
    await page.getByText('Connecting …').waitFor();
    await app.start();
    await page.getByText('Connecting …').waitFor({ state: 'hidden' });
    assert.ok(resumed.length >= 2, `the page resumed ${resumed.length} times`);
    await page.reload(); // in the reply, or while the run waits
    await page.getByRole('button', { name: 'Approve' }).click();
    const last = page.locator('li.assistant').last();
    await last.getByText('tours of this thread: 1').waitFor();
    const live = await page.locator('#items').innerText();
    await page.reload();
    await last.getByText('tours of this thread: 1').waitFor();
    assert.equal(await page.locator('#items').innerText(), live, 'a reload shows another conversation');
    assert.equal(await page.locator('li.user').count(), 1);
  });

  test('sends no message before the page can', async (t) => {
    const mailroom = await open(t, '[agents.tour]\nkind = "tour"\npace = "0s"\n');
    const app = await openApp(t, mailroom);
    const page = await openPage(t, context);
    await signIn(page, app, 'ann', 'tiles');
    await page.getByRole('button', { name: 'Send' }).waitFor();
    let answer;
    const asked = new Promise((resolve) => {
      page.route('**/me', (route) => {
        answer = () => route.continue();
        resolve();
      });
    });
    await page.goto(app.url);
    await asked;
    const text = page.getByLabel('Message');
    await text.fill('early');
    await text.press('Enter'); // a form without a handler would be sent by the browser
    assert.equal(await text.inputValue(), 'early');
    assert.equal(page.url(), `${app.url}/`);
    answer();
    await page.getByRole('button', { name: 'Send' }).click();
    await page.locator('li.user').getByText('early').waitFor();
    assert.equal(await text.inputValue(), '');
  });

  test('shows a user nothing of another one', async (t) => {
    const mailroom = await open(t, '[agents.tour]\nkind = "tour"\npace = "0s"\n');
    const app = await openApp(t, mailroom);
    const page = await openPage(t, context);
    const refused = page.waitForResponse((response) => response.url().endsWith('/sign-in'));
    await signIn(page, app, 'ann', 'harbour');
    assert.equal((await refused).headers()['set-cookie'], undefined);
    assert.equal(await page.getByRole('heading').innerText(), 'Sign in');
    await signIn(page, app, 'ann', 'tiles');
    await say(page, 'a secret of Ann');
    await page.getByRole('button', { name: 'Approve' }).waitFor();
    await context.clearCookies();
    await signIn(page, app, 'bob', 'harbour');
    await page.getByLabel('Message').waitFor();
    const seen = await page.evaluate(async () => {
      const paths = ['v1/threads', 'v1/threads/chat-ann', 'v1/threads/chat-ann/messages', 'v1/tickets', 'v1/runs', 'v1/search?q=secret', 'v1/tokens', '..//v1/threads'];
      const answers = await Promise.all(paths.map(async (path) => (await fetch(`/mail/${path}`)).text()));
      const sent = await fetch('/mail/v1/messages', { method: 'POST', headers: { 'content-type': 'application/json' }, body: '{"thread":"chat-ann","text":"x"}' });
      return { text: answers.join('\n'), status: sent.status };
    });
    assert.ok(seen.status === 403 || seen.status === 404, `a message to another thread: ${seen.status}`);
    assert.doesNotMatch(seen.text, /secret|harbour"/);
    const forged = (cookie, more = {}) => fetch(`${app.url}/mail/v1/messages`, { method: 'POST', headers: { cookie, 'content-type': 'application/json', ...more }, body: '{"thread":"chat-ann","text":"x"}' });
    const [{ value }] = await context.cookies();
    assert.equal((await forged(`chat=${value.replace('bob', 'ann')}`, { 'sec-fetch-site': 'same-origin' })).status, 401);
    assert.equal((await forged(`chat=${value}`, { 'sec-fetch-site': 'same-site' })).status, 403);
  });
});
