// Money, and amounts of budgets, as text for people. Pure, without the document.

const count = new Intl.NumberFormat();

/** US dollars, exact: $5.00, $0.0042. */
export const money = (usd) => `$${usd.toFixed(6).replace(/0{1,4}$/, '')}`;

const plain = (n) => count.format(n);

/** US dollars: $0.000012, $0.0042, $12.50, $35,748. What was spent never reads as nothing; see internal/display/money.go. */
export function dollars(n) {
  if (n === 0) return '$0';
  if (n < 0.000001) return '<$0.000001';
  if (n < 0.01) return `$${n.toFixed(6).replace(/0{1,2}$/, '')}`;
  return `$${n >= 1000 ? plain(Math.round(n)) : n.toFixed(n < 1 ? 4 : 2)}`;
}

/** What a run costs. The server may have computed all of it, or a part, from prices of models. */
export function cost({ cost_usd: usd, computed_usd: computed = 0 }) {
  if (computed <= 0) return dollars(usd);
  return computed >= usd ? `${dollars(usd)} (computed)` : `${dollars(usd)} (${dollars(computed)} computed)`;
}

// The members of amounts: their name, an amount with its unit, and one beside an amount with its unit.
/** @type {[string, (n: number) => string, (n: number) => string][]} */
const UNITS = [['usd', money, money], ['tokens', (n) => `${plain(n)} tokens`, plain], ['turns', (n) => (n === 1 ? '1 turn' : `${plain(n)} turns`), plain]];

/** The members of amounts that a limit bounds, in words. */
export function amounts(of, limit) {
  const parts = UNITS.filter(([name]) => limit[name] !== undefined).map(([name, text]) => text(of[name] ?? 0));
  if (limit.until !== undefined && of.until !== undefined) parts.push(`until ${new Date(of.until).toLocaleString()}`);
  return parts.join(', ') || 'nothing but a time';
}

/** Whether amounts are more than nothing. */
export const some = (of) => UNITS.some(([name]) => of[name] > 0);

/** What is used of each bound of a budget, and of what: with what was raised. */
export function bounds({ budget, raised, used, left }) {
  return UNITS.filter(([name]) => budget[name] > 0).map(([name, text, short]) => {
    const limit = budget[name] + (raised[name] ?? 0);
    return { name, part: (used[name] ?? 0) / limit, used: short(used[name] ?? 0), limit: text(limit), left: short(left[name] ?? 0) };
  });
}
