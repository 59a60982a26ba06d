// The error of all calls and streams of this client.

/**
 * Why a call or a stream failed. code is one of the server's: invalid,
 * unauthenticated, forbidden, not_found, conflict, busy, lease_lost, gone,
 * quota, too_large, unserved, rate_limited, internal, unavailable. "unavailable" means that the
 * outcome is unknown; "unserved" that no worker serves the agent; "internal" also stands for an unexpected answer.
 * Two more are about the address:
 * incompatible (what answers there is no Mailroom server) and certificate (its certificate is not trusted).
 */
export class MailroomError extends Error {
  constructor(code, detail, { fields = [], retryAfter = 0, status = 0, cause } = {}) {
    super(detail, cause === undefined ? undefined : { cause });
    this.name = 'MailroomError';
    this.code = code;
    this.detail = detail;
    this.fields = fields;
    this.retryAfter = retryAfter;
    this.status = status;
  }

  /** Whether a later retry can succeed: no answer came, or the rate limit was exceeded. */
  get passing() {
    return this.code === 'unavailable' || this.code === 'rate_limited';
  }

  /** Whether the address is wrong, or what is there: only a person can mend it. */
  get misplaced() {
    return this.code === 'incompatible' || this.code === 'certificate';
  }
}

/** The error in a problem object (RFC 9457, with a code). retryAfter is in milliseconds. */
export function refusal(problem, { status = problem?.status ?? 0, retryAfter = 0 } = {}) {
  const code = typeof problem?.code === 'string' ? problem.code : codeOf(status);
  const detail = problem?.detail || `the server answered ${status}`;
  const fields = Array.isArray(problem?.errors) ? problem.errors : [];
  return new MailroomError(code, detail, { fields, retryAfter, status });
}

// The code of a status whose answer did not come from a Mailroom server.
function codeOf(status) {
  const known = {
    401: 'unauthenticated', 403: 'forbidden', 404: 'not_found', 408: 'unavailable', 409: 'conflict', 410: 'gone',
    413: 'too_large', 429: 'rate_limited', 431: 'too_large', 502: 'unavailable', 503: 'unavailable', 504: 'unavailable',
  };
  return known[status] ?? (status >= 400 && status < 500 ? 'invalid' : 'internal');
}
