// A client of one Mailroom server, for browsers and for Node. No dependencies.

import { baseOf, checkSecret, decode, refuse, unanswered } from './answer.js';
import { MailroomError } from './errors.js';
import { followed } from './follow.js';
import { Alarm, Pauses } from './pause.js';
import { Socket } from './socket.js';

export { displayCut, displayLine, displayText } from './display.js';
export { MailroomError } from './errors.js';
export { Transcript } from './transcript.js';

/**
 * Calls return the answers of the HTTP API and throw MailroomError. All of them accept
 * `{ signal }` in their last argument; once it is aborted they throw its reason.
 */
export class Mailroom {
  #token;
  #session;
  #fetch;
  #socket;
  #alarm = new Alarm();

  /**
   * url is the server's base URL ("http://127.0.0.1:8420"), with its path prefix behind a
   * proxy. timeout bounds one attempt of a call, in milliseconds; tries bounds the
   * attempts of a call that is safe to repeat. session, for pages of the server itself and
   * in place of a token, is the page's half of the session of the browser, see signIn.
   */
  constructor({ url, token, session, fetch = globalThis.fetch, WebSocket = globalThis.WebSocket, timeout = 30_000, tries = 6 }) {
    this.url = baseOf(url);
    this.timeout = timeout;
    this.tries = tries;
    this.#token = token;
    this.#session = session;
    this.#fetch = (...given) => fetch(...given); // fetch must not be called as a method of this
    this.#socket = WebSocket ? new Socket({ url: this.url, token, session, WebSocket, alarm: this.#alarm, reachable: () => this.#reachable() }) : null;
  }

  /**
   * Submits a message: a text, or the body of a submit. It generates a key unless
   * options.key is given, so a repeat after a lost answer is not a second submit.
   */
  send(message, { key, signal, ...options } = {}) {
    const body = { ...(typeof message === 'string' ? { text: message } : message), ...options };
    body.key = key ?? body.key ?? newKey();
    return this.#call('POST', 'v1/messages', { body, signal });
  }

  /**
   * Follows a thread or a run after a cursor: an async iterator of
   * `{ kind: "entry" | "delta" | "gap" | "settled", cursor, … }`.
   *
   * It reconnects after a lost connection and resumes at its cursor, so each entry
   * comes exactly once; `after: cursor` resumes right after that event. The text of a
   * message can come again; a delta has its offset.
   *
   * It ends when signal is aborted, or as until says: "settled" when the run has
   * finished (a thread: when it is idle), "waiting" also when it waits for a decision.
   * The default is "settled" for a run and no end for a thread. If the server rejects the
   * request, it throws and does not repeat it.
   *
   * onState is called with "connecting", "live", or "waiting" and the error.
   */
  follow({ thread, run, after = '0', until = run ? 'settled' : undefined, signal, onState = () => {} }) {
    if (!thread && !run) throw new MailroomError('invalid', 'nothing to follow: name a thread or a run');
    const path = thread ? at('v1', 'threads', thread, 'stream') : at('v1', 'runs', run, 'stream');
    const open = (headers, stop) => this.#request('GET', path, { query: { run: thread && run, until }, headers, signal: stop });
    return this.#followed({ open, query: { thread, run, until }, after: String(after), signal, onState });
  }

  /**
   * Follows the entries of all threads that the token sees, after a cursor or from now on:
   * an async iterator of `{ kind: "entry" | "delta" | "gap", cursor, … }` that reconnects and
   * resumes at its cursor. Each entry comes once, in the order of its thread; a delta has its
   * thread and no cursor. It ends when signal is aborted. onState is as for follow.
   */
  followAll({ after = '', signal, onState = () => {} } = {}) {
    const open = (headers, stop) => this.#request('GET', 'v1/stream', { headers, signal: stop });
    return this.#followed({ open, query: {}, after, signal, onState });
  }

  #followed(reader) {
    const socket = () => (this.#socket?.usable ? this.#socket : null);
    return followed({ client: this, socket, alarm: this.#alarm, ...reader });
  }

  /** Ends all backoff pauses and checks open connections. */
  nudge() {
    this.#alarm.ring();
    this.#socket?.probe();
  }

  /** Cancels a run, or asks it to stop if it is running (`stopping`). */
  cancel(run, { children = false, signal } = {}) {
    return this.#call('POST', at('v1', 'runs', run, 'cancel'), { body: children ? { children } : {}, signal });
  }

  /** Cancels the queued runs of a thread and stops the current one. Not repeated: a repeat would affect newer messages. */
  interrupt(thread, { signal } = {}) {
    return this.#call('POST', at('v1', 'threads', thread, 'interrupt'), { body: {}, signal, repeat: false });
  }

  /**
   * Queues a failed or cancelled run again. fresh drops its checkpoint, recorded effects and decisions. Not repeated: the
   * server rejects a second retry.
   */
  retry(run, { fresh = false, signal } = {}) {
    return this.#call('POST', at('v1', 'runs', run, 'retry'), { body: fresh ? { fresh } : {}, signal, repeat: false });
  }

  /** Decides a ticket, once; approve needs the digest of the ticket that was shown. */
  decide(ticket, { decision, answer, reason, digest, signal }) {
    return this.#call('POST', at('v1', 'tickets', ticket), { body: { decision, answer, reason, digest }, signal });
  }

  run(id, { signal } = {}) {
    return this.#call('GET', at('v1', 'runs', id), { signal });
  }

  thread(id, { signal } = {}) {
    return this.#call('GET', at('v1', 'threads', id), { signal });
  }

  /** Changes a thread's agent, metadata or budget, or drops its session; absent fields stay as they are. */
  patchThread(id, { agent, metadata, dropSession, budget, signal }) {
    return this.#call('PATCH', at('v1', 'threads', id), { body: { agent, metadata, drop_session: dropSession, budget }, signal });
  }

  /** A page of threads, newest first: `{ items, next }`. */
  threads({ q, cursor, limit, signal } = {}) {
    return this.#call('GET', 'v1/threads', { query: { q, cursor, limit }, signal });
  }

  /** A page of a thread's log, in order of seq; with before alone, the last ones before it. */
  entries(thread, { after, before, limit, run, kind, signal } = {}) {
    return this.#call('GET', at('v1', 'threads', thread, 'entries'), { query: { after, before, limit, run, kind }, signal });
  }

  /** A page of the transcript in the order in which the agent read it, from its end; next is the before of older messages. */
  messages(thread, { before, limit, visibility, all, signal } = {}) {
    return this.#call('GET', at('v1', 'threads', thread, 'messages'), { query: { before, limit, visibility, all }, signal });
  }

  /** A page of tickets, newest first; q is a filter such as "thread:demo state:open". */
  tickets({ q, cursor, limit, signal } = {}) {
    return this.#call('GET', 'v1/tickets', { query: { q, cursor, limit }, signal });
  }

  message(thread, id, { signal } = {}) {
    return this.#call('GET', at('v1', 'threads', thread, 'messages', id), { signal });
  }

  ticket(id, { signal } = {}) {
    return this.#call('GET', at('v1', 'tickets', id), { signal });
  }

  /** A page of runs, newest first; q is a filter such as "status:failed agent:coder". */
  runs({ q, cursor, limit, signal } = {}) {
    return this.#call('GET', 'v1/runs', { query: { q, cursor, limit }, signal });
  }

  /**
   * Counts the runs that q matches: `{ count, next }`. One call reads a bounded number of runs;
   * the counts of further calls with `cursor: next` add to it, until that is null.
   */
  countRuns({ q, cursor, signal } = {}) {
    return this.#call('GET', 'v1/runs/count', { query: { q, cursor }, signal });
  }

  /** Failed runs by error, the latest failure first: `{ items, looked_to }`. */
  failures({ q, limit, signal } = {}) {
    return this.#call('GET', 'v1/failures', { query: { q, limit }, signal });
  }

  /** What agents did, asked and spent in a period, by default in the last 12 hours. Times are ISO strings. */
  report({ since, until, agent, signal } = {}) {
    return this.#call('GET', 'v1/report', { query: { since, until, agent }, signal });
  }

  /** Why queued runs do not run, the cause of the most runs first: `{ items, runs, looked_to }`. */
  waits({ q, signal } = {}) {
    return this.#call('GET', 'v1/waits', { query: { q }, signal });
  }

  /** What operators did, the newest first: a page. It needs the scope admin. */
  audit({ q, cursor, limit, signal } = {}) {
    return this.#call('GET', 'v1/audit', { query: { q, cursor, limit }, signal });
  }

  /** Messages that have all words of q, newest first: `{ items, next, indexed_to, complete }`. A page may be empty and have a next. */
  search({ q, thread, cursor, limit, signal }) {
    return this.#call('GET', 'v1/search', { query: { q, thread, cursor, limit }, signal });
  }

  /** Retries the failed and cancelled runs that q matches, a bounded number: `{ matched, retried, next }`. */
  retryMany({ q, cursor, dryRun = false, signal }) {
    return this.#call('POST', 'v1/runs/retry', { body: { q, cursor, dry_run: dryRun }, signal, repeat: dryRun });
  }

  /** Cancels the open runs that q matches, a bounded number: `{ matched, cancelled, next }`. */
  cancelMany({ q, cursor, dryRun = false, signal }) {
    return this.#call('POST', 'v1/runs/cancel', { body: { q, cursor, dry_run: dryRun }, signal, repeat: dryRun });
  }

  /** Starts no run of an agent until it is resumed. Needs the scope admin, like resumeAgent. */
  pauseAgent(name, { reason, signal } = {}) {
    return this.#call('POST', at('v1', 'agents', name, 'pause'), { body: { reason }, signal });
  }

  resumeAgent(name, { signal } = {}) {
    return this.#call('POST', at('v1', 'agents', name, 'resume'), { body: {}, signal, repeat: false });
  }

  /** The rules of the token, and the targets that it may use: `{ targets, rules }`. An admin sees the operator's. */
  alerts({ signal } = {}) {
    return this.#call('GET', 'v1/alerts', { signal });
  }

  /** Makes a rule of alerts, or replaces the one of its name. */
  putRule(rule, { signal } = {}) {
    return this.#call('POST', 'v1/alerts/rules', { body: rule, signal });
  }

  /** Removes a rule that putRule made. */
  deleteRule(name, { signal } = {}) {
    return this.#call('DELETE', at('v1', 'alerts', 'rules', name), { signal, repeat: false });
  }

  /** The budgets of days and months that the token sees: `{ items, next }`, in one page. */
  budgets({ signal } = {}) {
    return this.#call('GET', 'v1/budgets', { signal });
  }

  /** Adds to a budget until its day or month ends, such as `{ kind: 'agent', name: 'coder', period: 'day', by: '5usd' }`. Needs the scope admin. */
  raiseBudget({ kind, name, period, by, signal }) {
    return this.#call('POST', 'v1/budgets/raise', { body: { kind, name, period, by }, signal, repeat: false });
  }

  /** A page of schedules, by owner and name; an admin reads those of all owners with "*". */
  schedules({ owner, cursor, limit, signal } = {}) {
    return this.#call('GET', 'v1/schedules', { query: { owner, cursor, limit }, signal });
  }

  /** A schedule of the token, or with the scope admin of another owner, as the next calls. */
  schedule(name, { owner, signal } = {}) {
    return this.#call('GET', at('v1', 'schedules', name), { query: { owner }, signal });
  }

  /** Makes a schedule of the token, or changes it. */
  putSchedule(name, spec, { signal } = {}) {
    return this.#call('POST', 'v1/schedules', { body: { name, spec }, signal });
  }

  pauseSchedule(name, { owner, note, signal } = {}) {
    return this.#call('POST', at('v1', 'schedules', name, 'pause'), { query: { owner }, body: { note }, signal });
  }

  /** Ends the pause of a schedule. What was due in between is skipped. */
  resumeSchedule(name, { owner, signal } = {}) {
    return this.#call('POST', at('v1', 'schedules', name, 'resume'), { query: { owner }, body: {}, signal });
  }

  /** Sends the message of a schedule now. A repeat after a lost answer with the same key sends nothing. */
  runSchedule(name, { owner, key = newKey(), signal } = {}) {
    return this.#call('POST', at('v1', 'schedules', name, 'run'), { query: { owner }, headers: { 'Idempotency-Key': key }, body: {}, signal });
  }

  /** Deletes a schedule with its log. The runs that it sent go on. */
  deleteSchedule(name, { owner, signal } = {}) {
    return this.#call('DELETE', at('v1', 'schedules', name), { query: { owner }, signal, repeat: false });
  }

  /** Makes a target of alerts send a test message, and returns the run that does: `{ run }`. Needs the scope admin. */
  testAlert(target, { signal } = {}) {
    return this.#call('POST', 'v1/alerts/test', { body: { target }, signal, repeat: false });
  }

  /** Counts of threads and runs: `{ runs, threads, oldest_due_ms, started_at }`. */
  stats({ signal } = {}) {
    return this.#call('GET', 'v1/stats', { signal });
  }

  /** Sums of the ended runs by minute, hour or day: `{ step, from, to, items, start_delay_bounds_ms }`. Needs the scope metrics. */
  series({ step, from, to, agent, signal } = {}) {
    return this.#call('GET', 'v1/stats/series', { query: { step, from, to, agent }, signal });
  }

  /** Sums of the ended runs by agent, or by the value of the label: `{ step, from, to, label, items, all, others, start_delay_bounds_ms }`. Needs the scope metrics. */
  sums({ by, step, from, to, signal } = {}) {
    return this.#call('GET', 'v1/stats/sums', { query: { by, step, from, to }, signal });
  }

  /** The issues of the server's tracker by column: `{ columns }`. Needs the scope admin; not_found without a tracker. */
  issues({ signal } = {}) {
    return this.#call('GET', 'v1/issues', { signal });
  }

  /** The connections to chat platforms, by name. */
  async channels({ signal } = {}) {
    return (await this.#call('GET', 'v1/channels', { signal })).items;
  }

  /** Reconnects a channel now. Needs the scope admin. */
  resumeChannel(name, { signal } = {}) {
    return this.#call('POST', at('v1', 'channels', name, 'resume'), { body: {}, signal });
  }

  /** The processes that run agents, by id. */
  async workers({ signal } = {}) {
    return (await this.#call('GET', 'v1/workers', { signal })).items;
  }

  /**
   * What a browser needs to subscribe to alerts, and the subscribed browsers: `{ public_key, target, subscriptions }`.
   * Needs the scope admin, as subscribePush and unsubscribePush do; not_found without a target of kind push.
   */
  push({ signal } = {}) {
    return this.#call('GET', 'v1/push', { signal });
  }

  /** Subscribes a browser to alerts: `{ id }`, the same for the same endpoint. */
  subscribePush({ endpoint, keys }, { signal } = {}) {
    return this.#call('POST', 'v1/push/subscriptions', { body: { endpoint, keys }, signal });
  }

  /** Ends the subscription of a browser. */
  unsubscribePush(id, { signal } = {}) {
    return this.#call('DELETE', at('v1', 'push', 'subscriptions', id), { signal });
  }

  /** A page of tokens, sessions and links, by name. */
  tokens({ cursor, signal } = {}) {
    return this.#call('GET', 'v1/tokens', { query: { cursor }, signal });
  }

  /** Creates a token. Needs the scope admin; only the answer has its secret, as token. Not repeated. */
  createToken({ name, scopes, namespace, expires_at, signal }) {
    return this.#call('POST', 'v1/tokens', { body: { name, scopes, namespace, expires_at }, signal, repeat: false });
  }

  revokeToken(name, { signal } = {}) {
    return this.#call('DELETE', at('v1', 'tokens', name), { signal });
  }

  /** Revokes a token; with `cancel` also cancels the open runs of its threads: `{ cancelled, open_runs }`. */
  endToken(name, { cancel = false, signal } = {}) {
    return this.#call('POST', at('v1', 'tokens', name, 'revoke'), { body: { cancel }, signal });
  }

  /** The rights of the caller: `{ token, kind, scopes, … }`. */
  session({ signal } = {}) {
    return this.#call('GET', 'v1/session', { signal });
  }

  /** Whose session the secret of a link makes: `{ token, scopes, made_by, client, expires_at }`. It stays valid. */
  showLink(secret, { signal } = {}) {
    return this.#call('POST', 'v1/links/show', { body: { secret }, signal });
  }

  /**
   * Exchanges the secret of a link for a session. The browser keeps the cookie with one half of its secret; half has the
   * other one, for a page to keep. Not repeated: a link works once.
   */
  signIn(secret, { signal } = {}) {
    return this.#call('POST', 'v1/session', { body: { secret }, signal, repeat: false, cookies: true });
  }

  /** Ends the session. */
  signOut({ signal } = {}) {
    return this.#call('DELETE', 'v1/session', { signal });
  }

  /** All agents, by name. */
  async agents({ signal } = {}) {
    return (await this.#call('GET', 'v1/agents', { signal })).items;
  }

  // Only calls that are safe to repeat are retried: reads, and changes whose repeat the
  // server recognizes.
  async #call(method, path, { query, headers, body, signal, repeat = true, cookies } = {}) {
    const pauses = new Pauses();
    for (let tries = 1; ; tries++) {
      try {
        return await this.#answer(method, path, { query, headers, body, signal, cookies });
      } catch (error) {
        signal?.throwIfAborted();
        if (!repeat || !error.passing || tries >= this.tries) throw error;
        await this.#alarm.sleep(pauses.next(error.retryAfter), signal);
        signal?.throwIfAborted();
      }
    }
  }

  async #answer(method, path, { query, headers, body, signal, cookies }) {
    const late = AbortSignal.timeout(this.timeout);
    const either = signal ? AbortSignal.any([signal, late]) : late;
    return decode(await this.#request(method, path, { query, headers, body, signal: either, cookies }), this.url);
  }

  // Returns the response if its status is 2xx.
  async #request(method, path, { query = {}, headers = {}, body, signal, cookies = Boolean(this.#session) }) {
    const url = new URL(path, this.url);
    for (const [name, value] of Object.entries(query)) {
      for (const one of [value].flat()) if (one !== undefined && one !== '') url.searchParams.append(name, one);
    }
    headers = { ...headers };
    checkSecret(this.#token || this.#session);
    if (this.#token) headers.Authorization = `Bearer ${this.#token}`;
    else if (this.#session) headers.Authorization = `Session ${this.#session}`;
    if (body !== undefined) headers['Content-Type'] = 'application/json';
    let response;
    try {
      response = await this.#fetch(url, {
        method, headers, signal, body: body === undefined ? undefined : JSON.stringify(body),
        cache: 'no-store', credentials: cookies ? 'same-origin' : 'omit', redirect: 'manual', // the token goes nowhere else
      });
    } catch (cause) {
      throw unanswered(cause, this.url);
    }
    await refuse(response, this.url, 86_400);
    return response;
  }

  async #reachable() {
    try {
      await this.#request('GET', 'healthz', { signal: AbortSignal.timeout(5_000) });
      return true;
    } catch (error) {
      if (error.misplaced) throw error;
      return false;
    }
  }
}

/** A path of escaped segments. */
function at(...segments) {
  return segments.map((segment) => {
    const text = String(segment);
    if (text === '' || text === '.' || text === '..') throw new MailroomError('invalid', `"${text}" is not an id`);
    return encodeURIComponent(text);
  }).join('/');
}

/** An idempotency key for a submit. */
export function newKey() {
  // Browsers offer crypto.randomUUID only to pages over HTTPS.
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, '0')).join('');
}
