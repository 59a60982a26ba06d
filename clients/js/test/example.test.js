import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';

import { open } from './server.js';

test('the example in the README works', async (t) => {
  const readme = await readFile(new URL('../README.md', import.meta.url), 'utf8');
  const [, example] = /```js\n(.*?)```/s.exec(readme);
  const server = await open(t, '[agents.tour]\nkind = "tour"\npace = "0s"\n');
  const file = join(server.folder, 'example.mjs');
  await writeFile(file, example.replace('./mailroom.js', new URL('../mailroom.js', import.meta.url)));
  const child = spawn(process.execPath, [file], { env: { ...process.env, MAILROOM_URL: server.url, MAILROOM_TOKEN: server.token } });
  let out = '';
  for (const from of [child.stdout, child.stderr]) from.setEncoding('utf8').on('data', (piece) => { out += piece; });
  const [code] = await once(child, 'close');
  assert.equal(code, 0, out);
  assert.match(out, /\[May I send this postcard\? .*harbour.* Yes!\]/);
  assert.match(out, /\[completed\]\n- attempts of this run: \d; tours of this thread: 1\n$/);
});
