// The time axis of a run: pure, without the document and without imports.

/**
 * A part of the axis: from and to are times in milliseconds, left and right places from 0 to 1. A short part is drawn narrower
 * than its time.
 * @typedef {{ from: number, to: number, left: number, right: number, short: boolean }} Part
 */
/** @typedef {{ from: number, to: number, parts: Part[], drawn: number }} Scale */

const SHARE = 0.6; // of the busy time: what all shortened parts together are drawn as, at most
const WIDEST = 0.25; // of the busy time: what one of them is drawn as
const LONG = 3; // times the busy time: idle times that are longer together are drawn narrow

/**
 * Makes the axis from one time to another. busy are the times in which something ran. Between them nothing did: if shorten is
 * set, such a part is drawn narrow if it is much longer than what it would be drawn as.
 * @param {number} from
 * @param {number} to
 * @param {[number, number][]} busy
 * @param {boolean} shorten
 * @returns {Scale}
 */
export function makeScale(from, to, busy, shorten = true) {
  const last = Math.max(to, from + 1);
  const runs = join(busy.map(([a, b]) => /** @type {[number, number]} */ ([Math.max(a, from), Math.min(b, last)])).filter(([a, b]) => b >= a));
  const worked = runs.reduce((sum, [a, b]) => sum + b - a, 0);
  const idle = gaps(from, last, runs);
  const cap = worked * Math.min(WIDEST, SHARE / Math.max(1, idle.length));
  const idled = last - from - worked;
  const short = shorten && worked > 0 && idled > LONG * worked ? idle.filter(([a, b]) => b - a > 2 * cap) : [];
  const drawn = last - from - short.reduce((sum, [a, b]) => sum + b - a - cap, 0);
  /** @type {Part[]} */
  const parts = [];
  let at = from;
  let left = 0;
  const add = (until, narrow) => {
    const right = left + (narrow ? cap : until - at) / drawn;
    parts.push({ from: at, to: until, left, right, short: narrow });
    [at, left] = [until, right];
  };
  for (const [a, b] of short) {
    if (a > at) add(a, false);
    add(b, true);
  }
  if (at < last) add(last, false);
  parts[parts.length - 1].right = 1; // sums of fractions
  return { from, to: last, parts, drawn };
}

// join returns intervals in order, those that touch as one.
function join(intervals) {
  /** @type {[number, number][]} */
  const out = [];
  for (const [a, b] of intervals.sort((x, y) => x[0] - y[0])) {
    const before = out.at(-1);
    if (before && a <= before[1]) before[1] = Math.max(before[1], b);
    else out.push([a, b]);
  }
  return out;
}

function gaps(from, to, runs) {
  /** @type {[number, number][]} */
  const out = [];
  let at = from;
  for (const [a, b] of runs) {
    if (a > at) out.push([at, a]);
    at = Math.max(at, b);
  }
  if (to > at) out.push([at, to]);
  return out;
}

/**
 * The place of a time, from 0 to 1.
 * @param {Scale} scale
 */
export function placeOf({ parts, from, to }, time) {
  if (time <= from) return 0;
  if (time >= to) return 1;
  let [low, high] = [0, parts.length - 1];
  while (low < high) { // the first part that ends at the time or later
    const middle = (low + high) >> 1;
    if (parts[middle].to < time) low = middle + 1;
    else high = middle;
  }
  const part = parts[low];
  return part.left + (part.right - part.left) * (time - part.from) / (part.to - part.from);
}

const [S, M, H, D] = [1000, 60_000, 3_600_000, 86_400_000];
const STEPS = [
  1, 2, 5, 10, 20, 50, 100, 200, 500, S, 2 * S, 5 * S, 10 * S, 15 * S, 30 * S, M, 2 * M, 5 * M, 10 * M, 15 * M, 30 * M,
  H, 2 * H, 3 * H, 6 * H, 12 * H, D, 2 * D, 7 * D, 14 * D, 30 * D, 90 * D, 365 * D,
];

const APART = 72; // pixels between two ticks, at least
const ROOM = 56; // pixels of a label

/**
 * The ticks of an axis that is so many pixels wide: { at, text, short }, from left to right, at from 0 to 1. Times count from the
 * begin of the axis; behind a shortened part they count from its end, with a plus sign. A shortened part has its length.
 * @param {Scale} scale
 * @param {number} width
 * @param {(milliseconds: number) => string} format
 */
export function ticks({ parts, drawn, from }, width, format) {
  const wanted = drawn * APART / Math.max(width, APART);
  const step = STEPS.find((one) => one >= wanted) ?? Math.ceil(wanted / (365 * D)) * 365 * D;
  /** @type {{ at: number, text: string, short: boolean }[]} */
  const out = [];
  const text = (ms) => (ms > 1_000 && ms < 10_000 && ms % 1_000 > 0 ? `${ms / 1_000}s` : format(ms)); // 1.5s is not 2s
  const free = (at) => out.every((one) => Math.abs(one.at - at) * width >= ROOM);
  for (const part of parts) {
    const at = (part.left + part.right) / 2;
    if (part.short && free(at)) out.push({ at, text: format(part.to - part.from), short: true });
  }
  for (const part of parts) {
    if (part.short) continue;
    for (let n = part.from === from ? 0 : 1; part.from + n * step <= part.to; n++) {
      const at = part.left + (part.right - part.left) * n * step / (part.to - part.from);
      if (!free(at) || (at > 0 && (1 - at) * width < ROOM / 2)) continue;
      out.push({ at, text: `${part.from === from ? '' : '+'}${n === 0 ? '0' : text(n * step)}`, short: false });
    }
  }
  return out.sort((a, b) => a.at - b.at);
}
