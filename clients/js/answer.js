// Reads what an address answers, and makes errors of refusals, of answers of another program, and of no answer.

import { MailroomError, refusal } from './errors.js';

/** The base of the addresses of a server. An error shows nothing of an address that may contain a password. */
export function baseOf(url) {
  const wrong = (detail) => new MailroomError('invalid', `${detail}; give one such as http://127.0.0.1:8420`);
  if (!URL.canParse(url)) throw wrong('the address of the server is no URL');
  const base = new URL(url);
  if (!/^https?:$/.test(base.protocol)) throw wrong(`the address of the server begins with "${base.protocol}"`);
  if (base.username || base.password) {
    throw wrong('the address of the server has a user name or a password, and access is by token only');
  }
  base.search = base.hash = '';
  if (!base.pathname.endsWith('/')) base.pathname += '/';
  return base;
}

/** Throws if a token, or the secret of a session, cannot be sent: the error of fetch would contain it. */
export function checkSecret(secret) {
  if (!secret || /^[\x21-\x7e]+$/.test(secret)) return;
  throw new MailroomError('unauthenticated', 'the token has characters other than visible ASCII; check that it is complete');
}

const untrusted = /^(CERT_|UNABLE_TO_|DEPTH_ZERO_|SELF_SIGNED_|ERR_TLS_CERT_|HOSTNAME_MISMATCH|INVALID_|CRL_)/;

/** The error of a call without an answer: incompatible or certificate if no repeat helps, otherwise unavailable. */
export function unanswered(cause, base) {
  const { code = '', message: said } = rootOf(cause);
  const message = said || code; // the error of several failed connections has only a code
  const { origin = base } = base;
  const told = (kind, detail) => new MailroomError(kind, detail, { cause });
  if (untrusted.test(code)) {
    const remedy = 'replace it, or name its authority in NODE_EXTRA_CA_CERTS';
    return told('certificate', `the certificate of ${origin} is not trusted (${brief(message)}); ${remedy}`);
  }
  if (/^(ERR_SSL_|EPROTO)/.test(code)) {
    const detail = `${origin} does not speak TLS; if it has no certificate, its address begins with http:`;
    return told('incompatible', detail);
  }
  if (code.startsWith('HPE_')) return told('incompatible', `${origin} does not speak HTTP; check the address`);
  if (message === 'bad port') return told('incompatible', `fetch refuses the port of ${origin}; use another one`);
  if (code === 'ENOTFOUND') {
    const detail = `no answer from the server at ${origin}: its name is not known; check the address`;
    return Object.assign(told('unavailable', detail), { unresolved: true });
  }
  return told('unavailable', `no answer from the server at ${origin}${message && ` (${brief(message)})`}`);
}

// The innermost cause, which is the error of the system. The message of fetch itself is not used, because it can
// contain the value of a header, such as the token.
function rootOf(error) {
  let root = error?.cause ?? {};
  while (root.cause) root = root.cause;
  return root;
}

function brief(text) { return text.replace(/\s+/g, ' ').trim().slice(0, 200); }

/** Throws what a response says unless it is a success. wait bounds its Retry-After, in seconds. */
export async function refuse(response, base, wait) {
  const { status } = response;
  if (response.ok) return;
  if (response.type === 'opaqueredirect' || (status >= 300 && status < 400)) throw redirected(response, base);
  const text = await response.text().catch(() => '');
  const problem = parse(text);
  if (typeof problem?.code !== 'string' && foreign.has(status)) throw strange(status, base, text);
  const seconds = Number(response.headers.get('Retry-After'));
  throw refusal(problem, { status, retryAfter: seconds > 0 ? Math.min(seconds, wait) * 1000 : 0 });
}

/** The JSON of a successful response. */
export async function decode(response, base) {
  if (response.status === 204) return undefined;
  let text;
  try {
    text = await response.text();
  } catch (cause) {
    throw unanswered(cause, base); // a truncated answer
  }
  const answer = parse(text);
  if (answer === null || typeof answer !== 'object') throw strange(response.status, base, text);
  return answer;
}

/** The bytes of a successful response whose body is the content of a blob. */
export async function content(response, base) {
  try {
    return new Uint8Array(await response.arrayBuffer());
  } catch (cause) {
    throw unanswered(cause, base); // a truncated answer
  }
}

/** Statuses that a Mailroom server never has without a code. Others can come from a proxy in front of it. */
const foreign = new Set([400, 404, 405, 406, 410, 411, 415, 421, 422, 426, 501, 505]);

/** The error of an answer that no Mailroom server gives. */
export function strange(status, base, text = '') {
  const https = base.protocol === 'http:' && text.includes('HTTPS server'); // what Go's servers say
  const hint = https ? 'its address begins with https:' : 'check the address';
  const detail = `${base.href} answered ${status}, and not as a Mailroom server does; ${hint}`;
  return new MailroomError('incompatible', detail, { status });
}

// Redirects are not followed: the token is for this server alone.
function redirected({ status, headers }, base) {
  const to = headers.get('Location') ?? '';
  const where = URL.canParse(to, base) ? ` to ${new URL(to, base).origin}` : '';
  const detail = `${base.href} redirects${where}, and a token is not sent on; give the address of the server itself`;
  return new MailroomError('incompatible', detail, { status });
}

function parse(text) {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}
