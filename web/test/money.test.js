import assert from 'node:assert/strict';
import { test } from 'node:test';

import { cost, dollars } from '../console/amounts.js';

test('money never reads as nothing, as in internal/display/money_test.go', () => {
  for (const [usd, want] of [
    [0, '$0'], [5e-10, '<$0.000001'], [0.000001, '$0.000001'], [0.000012, '$0.000012'], [0.00001, '$0.00001'],
    [0.0042, '$0.0042'], [0.009, '$0.0090'], [0.5, '$0.5000'], [12.5, '$12.50'], [999.99, '$999.99'],
  ]) assert.equal(dollars(usd), want);
  for (let usd = 1e-12; usd < 1e9; usd *= 1.7) assert.match(dollars(usd), /[1-9]/, `${usd}`);
});

test('a computed cost is marked', () => {
  assert.equal(cost({ cost_usd: 1.2 }), '$1.20');
  assert.equal(cost({ cost_usd: 0.000012, computed_usd: 0.000012 }), '$0.000012 (computed)');
  assert.equal(cost({ cost_usd: 1.2, computed_usd: 0.2 }), '$1.20 ($0.2000 computed)');
});
