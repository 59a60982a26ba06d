// JSON as the server takes it: bounded, well-formed, and for inputs in one canonical form.

import { MailroomError } from '../errors.js';
import { invalid } from './errors.js';

const encoder = new TextEncoder();

export const KiB = 1024;
export const MiB = 1024 * KiB;

/** The length of a text in bytes of UTF-8. */
export function bytesOf(text) { return encoder.encode(text).length; }

/** The text with U+FFFD for each half of a surrogate pair that stands alone: UTF-8 cannot carry it. */
export function wellFormed(text) { return text.toWellFormed(); }

/**
 * The JSON of a value, at most limit bytes. JSON.stringify writes a lone surrogate as an escape, which the
 * server refuses; the second pass over the value, which makes strings well-formed, runs only if there may be one.
 */
export function encode(value, what, limit = Infinity) {
  let text;
  try {
    text = JSON.stringify(value);
    if (text !== undefined && /\\ud[89a-f]/.test(text)) text = JSON.stringify(value, mend);
  } catch (cause) {
    throw invalid(`${what} cannot be encoded as JSON (${cause.message}); give plain data`, cause);
  }
  if (text === undefined) throw invalid(`${what} cannot be encoded as JSON; give plain data`);
  checkSize(bytesOf(text), what, limit);
  return text;
}

function mend(_, value) { return typeof value === 'string' ? wellFormed(value) : value; }

/** Throws too_large if something exceeds its limit. The server refuses a larger body before it has read it. */
export function checkSize(bytes, what, limit) {
  if (bytes <= limit) return;
  const detail = `${what} has ${bytes} bytes, ${limit} are allowed; store it elsewhere and keep a reference`;
  throw new MailroomError('too_large', detail);
}

/** A value after a round trip through JSON, as a later attempt reads it. */
export function plain(value, what, limit) {
  return value === undefined ? null : JSON.parse(encode(value, what, limit));
}

/** JSON with sorted keys and without spaces, so that equal values have equal texts. */
export function canonical(value) {
  if (Array.isArray(value)) return `[${value.map(canonical).join(',')}]`;
  if (value === null || typeof value !== 'object') return JSON.stringify(value);
  return `{${Object.keys(value).sort().map((key) => `${JSON.stringify(key)}:${canonical(value[key])}`).join(',')}}`;
}

/** The first 32 hexadecimal digits of the SHA-256 of a value's canonical JSON. */
export async function digest(value) {
  const sum = new Uint8Array(await crypto.subtle.digest('SHA-256', encoder.encode(canonical(value))));
  return Array.from(sum.subarray(0, 16), (byte) => byte.toString(16).padStart(2, '0')).join('');
}

/** A duration in the form of the server. A number is in milliseconds; a text such as "10m" stays as it is. */
export function duration(value) { return typeof value === 'number' ? `${Math.max(1, Math.round(value))}ms` : value; }
