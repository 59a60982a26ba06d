// Values as text for people.

import { displayLine } from '../chat/client/mailroom.js';

/** The milliseconds from one time to another, or to now. */
export const between = (from, to = Date.now()) => new Date(to).valueOf() - new Date(from).valueOf();

/** @type {[number, string][]} */
const UNITS = [[86_400, 'd'], [3_600, 'h'], [60, 'm'], [1, 's']];

/** A duration in milliseconds: 3m 20s, 120ms. */
export function duration(milliseconds) {
  if (milliseconds === null || Number.isNaN(milliseconds)) return '';
  const ms = Math.max(0, milliseconds);
  if (ms < 1000) return `${Math.round(ms)}ms`;
  let seconds = Math.round(ms / 1000);
  const parts = [];
  for (const [size, unit] of UNITS) {
    const n = Math.floor(seconds / size);
    seconds -= n * size;
    if (n > 0 && parts.length < 2) parts.push(`${n}${unit}`);
    else if (parts.length === 1) break;
  }
  return parts.join(' ');
}

/** How long ago a time is, or how far ahead. */
export function ago(time, now = Date.now()) {
  const past = between(time, now);
  if (Math.abs(past) < 5_000) return 'now';
  const text = duration(Math.abs(past)).split(' ')[0];
  return past > 0 ? `${text} ago` : `in ${text}`;
}

const full = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'medium' });

/** A time in full, with its day. */
export const whole = (time) => full.format(new Date(time));

const count = new Intl.NumberFormat();

/** A whole number with separators. */
export const number = (n) => count.format(n);

const few = new Intl.NumberFormat(undefined, { notation: 'compact', maximumFractionDigits: 1 });

/** A number with few digits: 12.4K. */
export const compact = (n) => few.format(n);

const share = new Intl.NumberFormat(undefined, { style: 'percent', maximumSignificantDigits: 2 });

/** A part of a whole as a percentage. What is not all is not shown as 100%. */
export const percent = (part) => (part < 1 && part > 0.99 ? `${Math.floor(part * 1000) / 10}%` : share.format(part));

const CAUSES = { transient: 'temporary error', unavailable: 'not available', permanent: 'not worth a retry', exhausted: 'attempts or time used up', crashed: 'worker lost' };

/** Why an error of this class failed a run, or an attempt. */
export const cause = (of) => CAUSES[of] ?? displayLine(of);

export { cost, dollars } from './amounts.js';

/** The first characters of an id, enough to tell ids of one list apart. */
export function short(id) {
  const text = displayLine(id);
  return text.length > 18 ? `…${text.slice(-12)}` : text;
}
