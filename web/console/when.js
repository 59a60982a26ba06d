// The times of schedules as text for people. Pure, without the document.

const DAYS = ['Sunday', 'Monday', 'Tuesday', 'Wednesday', 'Thursday', 'Friday', 'Saturday'];
const SHORT = ['sun', 'mon', 'tue', 'wed', 'thu', 'fri', 'sat'];
const WORDS = { '@hourly': '0 * * * *', '@daily': '0 0 * * *', '@midnight': '0 0 * * *', '@weekly': '0 0 * * 0', '@monthly': '0 0 1 * *' };

const two = (n) => String(n).padStart(2, '0');
const join = (all) => (all.length < 2 ? all.join('') : `${all.slice(0, -1).join(', ')} and ${all.at(-1)}`);
const whole = (text) => /^\d+$/.test(text);

/** The words for a schedule's times. An expression that has no short form stays as it is. */
export function timesOf({ cron, every, at }) {
  if (every) return `every ${every}`;
  if (at) return 'once';
  return words(WORDS[cron] ?? cron) ?? cron;
}

function words(expression) {
  const fields = expression.trim().split(/\s+/);
  if (fields.length !== 5) return null;
  const [minute, hour, date, month, day] = fields;
  if (month !== '*' || (date !== '*' && day !== '*')) return null;
  const time = timeOf(minute, hour);
  const days = date === '*' ? daysOf(day) : datesOf(date);
  if (!time || days === null) return null;
  return time.clock ? `${days || 'every day'} at ${time.clock}` : `${time.step}${days ? `, ${days}` : ''}`;
}

function timeOf(minute, hour) {
  const hours = hour.split(',');
  if (whole(minute) && hours.every(whole)) return { clock: join(hours.map((h) => `${two(h)}:${two(minute)}`)) };
  const step = /^\*\/(\d+)$/.exec(minute)?.[1];
  if (hour === '*' && minute === '*') return { step: 'every minute' };
  if (hour === '*' && step) return { step: `every ${step} minutes` };
  if (hour === '*' && whole(minute)) return { step: minute === '0' ? 'every hour' : `every hour at :${two(minute)}` };
  const hourly = /^\*\/(\d+)$/.exec(hour)?.[1];
  if (hourly && whole(minute)) return { step: `every ${hourly} hours${minute === '0' ? '' : ` at :${two(minute)}`}` };
  return null;
}

// daysOf returns '' for all days, and null for what it has no words for.
function daysOf(field) {
  if (field === '*') return '';
  const number = (text) => (/^[0-7]$/.test(text) ? Number(text) : SHORT.indexOf(text.toLowerCase()));
  const days = new Set();
  for (const part of field.split(',')) {
    const [from, to = from, ...more] = part.split('-').map(number);
    if (from < 0 || to < 0 || more.length > 0) return null;
    for (let d = from; d <= (to < from ? to + 7 : to); d++) days.add(d % 7);
  }
  const key = [...days].sort().join('');
  if (key === '0123456') return '';
  if (key === '12345') return 'weekdays';
  if (key === '06') return 'weekends';
  return join([1, 2, 3, 4, 5, 6, 0].filter((d) => days.has(d)).map((d) => `${DAYS[d]}s`));
}

function datesOf(field) {
  if (field === 'L') return 'the last day of each month';
  const dates = field.split(',');
  return dates.every(whole) ? `day ${join(dates)} of each month` : null;
}

/** @type {Map<string, Intl.DateTimeFormat>} */
const formats = new Map();

/** A time in a zone, with the zone: Mon, 7 Dec, 07:00 CET. A zone that this browser does not know is UTC. */
export function inZone(time, zone = 'UTC') {
  let format = formats.get(zone);
  if (!format) {
    /** @type {Intl.DateTimeFormatOptions} */
    const options = { weekday: 'short', day: 'numeric', month: 'short', hour: '2-digit', minute: '2-digit', hourCycle: 'h23', timeZoneName: 'short' };
    try {
      format = new Intl.DateTimeFormat(undefined, { ...options, timeZone: zone || 'UTC' });
    } catch {
      format = new Intl.DateTimeFormat(undefined, { ...options, timeZone: 'UTC' });
    }
    formats.set(zone, format);
  }
  return format.format(new Date(time));
}

/** The cron expression that a refusal of the server offers instead, '' without one. */
export const offered = (message) => /; for ".*" use "([^"]+)"$/s.exec(message ?? '')?.[1] ?? '';
