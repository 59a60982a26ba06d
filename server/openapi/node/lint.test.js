import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

import { open } from '../../../clients/js/test/server.js';

const here = fileURLToPath(new URL('.', import.meta.url));
const redocly = join(here, 'node_modules', '@redocly', 'cli', 'bin', 'cli.js');

// The linter looks for a newer version and reports what it is used for, unless these say no.
const env = { ...process.env, REDOCLY_TELEMETRY: 'off', REDOCLY_SUPPRESS_UPDATE_NOTICE: 'true' };

test('the description that a server serves is clean in the linter', async (t) => {
  const server = await open(t);
  const answer = await fetch(`${server.url}/openapi.json`);
  assert.equal(answer.status, 200);
  const file = join(server.shared, 'openapi.json');
  await writeFile(file, await answer.text());
  const args = [redocly, 'lint', file, '--config', join(here, 'redocly.yaml'), '--format', 'json'];
  const { stdout } = await promisify(execFile)(process.execPath, args, { env, maxBuffer: 1 << 26 }).catch((failed) => failed);
  const found = JSON.parse(stdout.slice(stdout.indexOf('{'), stdout.lastIndexOf('}') + 1));
  const problems = found.problems.map((p) => `${p.ruleId}: ${p.message} ${p.location?.[0]?.pointer ?? ''}`);
  assert.deepEqual(problems, []);
  assert.deepEqual(found.totals, { errors: 0, warnings: 0, ignored: 0 });
});
