// Requests of a worker. A write is repeated as it was until it is answered: the server recognizes the repeat by its
// round or number.

import { refusal, unanswered } from '../errors.js';
import { Alarm, Pauses } from '../pause.js';
import { checkSize, encode, bytesOf, MiB } from './json.js';

const patience = 30_000; // ms for one try
const faults = 5; // answers with the code internal in a row, after which a call fails

export class Link {
  #base;
  #headers;
  #fetch;
  #alarm = new Alarm();

  constructor({ url, token, fetch }) {
    this.#base = new URL(url);
    this.#base.search = this.#base.hash = '';
    if (!this.#base.pathname.endsWith('/')) this.#base.pathname += '/';
    this.#headers = { ...(token && { authorization: `Bearer ${token}` }), 'content-type': 'application/json' };
    this.#fetch = (...given) => fetch(...given); // not as a method of this
  }

  get origin() { return this.#base.origin; }

  /** Encodes a body. Sizes are checked here, because a refusal of a large body can look like a broken connection. */
  encode(body, limit) {
    const text = encode(body, 'the request');
    checkSize(bytesOf(text), 'the request', limit ?? 12 * MiB);
    return text;
  }

  /**
   * Calls until an answer comes, or signal is aborted, which throws its reason. once leaves out the repeats.
   */
  async call(method, path, { body, query, signal, once = false, timeout = patience } = {}) {
    const text = body === undefined || typeof body === 'string' ? body : this.encode(body);
    const pauses = new Pauses(100, 5_000);
    for (let internal = 0; ;) {
      signal?.throwIfAborted();
      try {
        return await this.#try(method, path, query, text, signal, timeout);
      } catch (error) {
        signal?.throwIfAborted();
        const fault = error.code === 'internal';
        internal = fault ? internal + 1 : 0;
        if (once || !(error.passing || (fault && internal < faults))) throw error;
        await this.#alarm.sleep(pauses.next(error.retryAfter), signal);
      }
    }
  }

  post(path, body, more) { return this.call('POST', path, { body, ...more }); }

  get(path, query, more) { return this.call('GET', path, { query, ...more }); }

  async #try(method, path, query = {}, body, signal, timeout) {
    const url = new URL(path, this.#base);
    for (const [name, value] of Object.entries(query)) {
      for (const one of [value].flat()) if (one !== undefined) url.searchParams.append(name, one);
    }
    const cut = new AbortController(); // not AbortSignal.any, which some versions of Node keep as long as signal
    const abort = () => cut.abort(signal?.reason);
    const timer = setTimeout(abort, timeout);
    signal?.addEventListener('abort', abort);
    let response;
    let answer;
    try {
      const options = { method, headers: this.#headers, body, signal: cut.signal, redirect: 'error' };
      response = await this.#fetch(url, options);
      answer = response.status === 204 ? undefined : await response.json();
    } catch (cause) {
      if (!response || response.ok) throw unanswered(cause, this.#base.origin); // also a truncated answer
    } finally {
      clearTimeout(timer);
      signal?.removeEventListener('abort', abort);
    }
    if (response.ok) return answer;
    const seconds = Number(response.headers.get('Retry-After'));
    throw refusal(answer, { status: response.status, retryAfter: seconds > 0 ? Math.min(seconds, 60) * 1000 : 0 });
  }
}
