import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';

import { displayCut, displayLine, displayText } from '../mailroom.js';

const cases = JSON.parse(readFileSync(new URL('../../../internal/display/testdata/cases.json', import.meta.url), 'utf8'));

test('text is rendered as the server renders it', () => {
  assert.ok(cases.named.length > 20 && cases.random.length > 500 && cases.cut.length > 50);
  for (const { name, in: text, text: several, line } of [...cases.named, ...cases.random]) {
    assert.equal(displayText(text), several, `${name ?? 'random'}: ${JSON.stringify(text)}`);
    assert.equal(displayLine(text), line, `${name ?? 'random'}: ${JSON.stringify(text)}`);
  }
  for (const { in: text, n, out } of cases.cut) assert.equal(displayCut(text, n), out, `${JSON.stringify(text)} after ${n}`);
});

test('every code point is marked or not as the server does it', () => {
  const marked = [];
  let start = -1;
  for (let c = 0; c <= 0x110000; c++) {
    const one = c <= 0x10ffff && String.fromCodePoint(c);
    const is = one && displayText(one) !== one;
    if (is && start < 0) start = c;
    if (!is && start >= 0) {
      marked.push([start, c - 1].map((n) => n.toString(16).toUpperCase().padStart(4, '0')));
      start = -1;
    }
  }
  assert.deepEqual(marked, cases.marked);
});

test('half of a character is marked', () => {
  assert.equal(displayText('a\ud83d'), 'a⟦U+D83D⟧');
});
