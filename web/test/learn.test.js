import { execFile, spawn } from 'node:child_process';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

import { ownPort } from '../../clients/js/test/ports.js';
import { open } from '../../clients/js/test/server.js';
import { launch } from './browser.js';

const root = fileURLToPath(new URL('../..', import.meta.url));

test('the application of the page about web pages runs as it stands, and a reload goes on in mid-reply', async (t) => {
  const port = await ownPort(); // the application of the page names its own, 3000
  const guide = (await readFile(join(root, 'docs/learn/behind-a-web-page.md'), 'utf8')).replaceAll(':3000', `:${port}`)
    .replace('listen(3000,', `listen(${port},`);
  const [, settings] = /```toml\n(.*?)```/s.exec(guide);
  const server = await open(t, () => `${settings}[agents.echo]\nkind = "echo"\npace = "40ms"\n`);
  const app = await mkdtemp(join(tmpdir(), 'mailroom-page-'));
  t.after(() => rm(app, { recursive: true }));
  for (const [, name, text] of guide.matchAll(/```\w+ title="(app\.mjs|index\.html)"\n(.*?)```/gs)) {
    await writeFile(join(app, name), text);
  }
  await promisify(execFile)('npm', ['install', '--offline', '--no-audit', '--no-fund', join(root, 'clients/js')], { cwd: app });
  const child = spawn(process.execPath, ['app.mjs'], {
    cwd: app, env: { ...process.env, MAILROOM_URL: server.url, MAILROOM_TOKEN: server.token }, stdio: 'inherit',
  });
  t.after(() => child.kill('SIGKILL'));
  for (let up = false; !up;) up = await fetch(`http://127.0.0.1:${port}/`).then(({ ok }) => ok, () => false);

  const [context, close] = await launch();
  t.after(() => close());
  const page = await context.newPage();
  await page.goto(`http://127.0.0.1:${port}/`);
  await page.fill('input', Array.from({ length: 100 }, (_, i) => `word${i}`).join(' '));
  await page.click('button'); // which is enabled when the page can send
  const shows = (text) => page.waitForFunction((wanted) => document.querySelector('pre').textContent.includes(wanted), text);
  await shows('assistant: word0 word1');
  await page.reload();
  await shows('assistant: word0 word1');
  await page.waitForFunction(() => document.querySelector('pre').textContent.trimEnd().split('assistant: ')[1]?.endsWith('word99'));
});
