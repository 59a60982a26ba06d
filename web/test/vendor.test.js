import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';

const vendor = fileURLToPath(new URL('../vendor/', import.meta.url));

test('the bundled libraries are those of the locked packages', async (t) => {
  const built = await mkdtemp(join(tmpdir(), 'mailroom-vendor-'));
  t.after(() => rm(built, { recursive: true }));
  execFileSync('node', [join(vendor, 'build.js'), built], { stdio: 'inherit' });
  const names = await readdir(built);
  assert.deepEqual(names.sort(), ['LICENSES.txt', 'marked.js', 'preact.js', 'uplot.css', 'uplot.js', 'virtual.js']);
  for (const name of names) {
    assert.equal(await readFile(join(vendor, name), 'utf8'), await readFile(join(built, name), 'utf8'), `web/vendor/${name} differs: run make vendor`);
  }
});
