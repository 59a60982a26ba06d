// Sums of ended runs over time, as lists that a chart draws.

/**
 * The ranges that can be chosen. Each has the step to ask the server for and the seconds of a bar, a
 * multiple of the step.
 * @type {Record<string, { name: string, step: 'minute' | 'hour' | 'day', seconds: number, bar: number }>}
 */
export const RANGES = {
  hour: { name: 'Hour', step: 'minute', seconds: 3_600, bar: 60 },
  day: { name: 'Day', step: 'minute', seconds: 86_400, bar: 900 },
  week: { name: 'Week', step: 'hour', seconds: 7 * 86_400, bar: 2 * 3_600 },
  month: { name: '30 days', step: 'hour', seconds: 30 * 86_400, bar: 6 * 3_600 },
  year: { name: 'Year', step: 'day', seconds: 365 * 86_400, bar: 86_400 },
};

/** Sums are the values of a bar that add up. */
const SUMS = ['completed', 'failed', 'cancelled', 'started', 'start_delay_ms', 'ran_ms', 'input_tokens', 'output_tokens', 'cost_usd'];

/**
 * What to ask the server for: whole bars of a range, the last one with now (in milliseconds). With before, it is the range
 * before that one, of the same length.
 */
export function request(range, now, { before = false } = {}) {
  const { step, seconds, bar } = RANGES[range];
  const end = Math.floor(now / 1000 / bar) * bar + bar - (before ? seconds : 0);
  return { step, from: time(end - seconds), to: time(end) };
}

/** The periods of a range that the server adds up by agent, at most 31: seconds of one, and how many. */
const ADDED = { hour: ['hour', 3_600, 2], day: ['hour', 3_600, 24], week: ['day', 86_400, 7], month: ['day', 86_400, 30], year: ['day', 86_400, 31] };

/** The days of a range that a label, which is summed up by day, is asked for: the hours of a day are in two. */
const LABELLED = { hour: ['day', 86_400, 1], day: ['day', 86_400, 2] };

/** What to ask the server for to compare agents, or with by the values of a label: whole periods, the last one with now (in milliseconds). */
export function sumsRequest(range, now, by = 'agent') {
  const [step, length, periods] = (by === 'label' && LABELLED[range]) || ADDED[range];
  const end = Math.floor(now / 1000 / length) * length + length;
  return { step, from: time(end - periods * length), to: time(end) };
}

/** What people read of sums: the runs that ended, the parts of them that failed and succeeded, and the average delay in milliseconds; null: of no run. */
export function read({ completed, failed, cancelled, started, start_delay_ms: delay, cost_usd: cost }) {
  const ended = completed + failed + cancelled;
  const decided = completed + failed;
  return {
    ended, cost, failed, failing: ended > 0 ? failed / ended : null, success: decided > 0 ? completed / decided : null,
    delay: started > 0 ? delay / started : null, each: ended > 0 ? cost / ended : null,
  };
}

const time = (seconds) => new Date(seconds * 1000).toISOString();

/**
 * The bars of a series, without gaps: each has the sums, start_delays, and at in seconds.
 * @returns {any[]}
 */
export function bars(series, bar) {
  const from = Math.floor(Date.parse(series.from) / 1000 / bar) * bar;
  const all = [];
  for (let at = from; at < Date.parse(series.to) / 1000; at += bar) {
    all.push({ at, ...Object.fromEntries(SUMS.map((name) => [name, 0])), start_delays: series.start_delay_bounds_ms.concat(0).fill(0) });
  }
  for (const point of series.items) {
    const of = all[Math.floor((Date.parse(point.at) / 1000 - from) / bar)];
    if (of) addTo(of, point);
  }
  return all;
}

/**
 * The sums of all bars.
 * @returns {any}
 */
export function total(list) {
  const [first, ...rest] = list;
  const sums = { ...first, start_delays: [...first.start_delays] };
  for (const point of rest) addTo(sums, point);
  return sums;
}

function addTo(sums, point) {
  for (const name of SUMS) sums[name] += point[name];
  point.start_delays.forEach((n, i) => { sums.start_delays[i] += n; });
}

/**
 * The time in milliseconds within which nine of ten runs started, rounded up to one of the bounds: null
 * without runs, Infinity beyond the last bound.
 */
export function mostWithin(point, bounds) {
  let left = Math.ceil(point.started * 0.9);
  if (left === 0) return null;
  for (const [i, n] of point.start_delays.entries()) {
    left -= n;
    if (left <= 0) return bounds[i] ?? Infinity;
  }
  return Infinity;
}
