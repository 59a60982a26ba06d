// The digest of an effect's input, by the table that the server and the worker in Python are tested with.

import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { test } from 'node:test';

import { digest } from '../worker/json.js';

test('equal values have the digest of the server', async () => {
  const table = new URL('../../../internal/jsontext/testdata/canonical.json', import.meta.url);
  const rows = JSON.parse(await readFile(table, 'utf8'));
  assert.ok(rows.length > 30);
  for (const row of rows) {
    const same = await digest(JSON.parse(row.text)) === row.digest;
    assert.equal(same, !row.exact, `${row.text}; JavaScript rounds what is exact elsewhere`);
  }
});
