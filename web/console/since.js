// The begin of a period, as people write it in an address.

/** Hours of the period without a begin. */
const NIGHT = 12;

/**
 * The time that a text means: 22:00 is the last one that has passed, 12h that long ago, today and yesterday begin at
 * midnight; or a time. All are of the clock on the wall. Another text means 12 hours ago.
 */
export function sinceOf(text, now = new Date()) {
  const [, clock = '', minute = ''] = /^(\d\d):([0-5]\d)$/.exec(text) ?? [];
  const at = new Date(now);
  if (clock && Number(clock) < 24) {
    at.setHours(Number(clock), Number(minute), 0, 0);
    if (at > now) at.setDate(at.getDate() - 1);
    return at;
  }
  if (text === 'today' || text === 'yesterday') {
    at.setHours(0, 0, 0, 0);
    if (text === 'yesterday') at.setDate(at.getDate() - 1);
    return at;
  }
  const time = new Date(text);
  if (/^\d{4}-/.test(text) && !Number.isNaN(time.valueOf())) return time;
  const [, hours = NIGHT] = /^([1-9]\d{0,2})h$/.exec(text) ?? [];
  return new Date(now.valueOf() - Number(hours) * 3_600_000);
}
