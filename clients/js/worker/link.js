// Requests of a worker. A write is repeated as it was until it is answered: the server recognizes the repeat by its
// round or number.

import { baseOf, checkSecret, content, decode, refuse, unanswered } from '../answer.js';
import { Alarm, Pauses } from '../pause.js';
import { checkSize, encode, bytesOf, MiB } from './json.js';

const patience = 30_000; // ms for one try
const binary = 'application/octet-stream'; // the content of a blob
const faults = 5; // answers with the code internal in a row, after which a call fails
const longestRest = 60; // seconds that a Retry-After counts for

export class Link {
  #base;
  #headers;
  #fetch;
  #alarm = new Alarm();

  constructor({ url, token, fetch }) {
    this.#base = baseOf(url);
    checkSecret(token);
    this.#headers = { ...(token && { authorization: `Bearer ${token}` }), 'content-type': 'application/json' };
    this.#fetch = async (...given) => fetch(...given); // fetch must not be called as a method of this
  }

  get base() { return this.#base; }

  /** Encodes a body. Sizes are checked here, because a refusal of a large body can look like a broken connection. */
  encode(body, limit) {
    const text = encode(body, 'the request');
    checkSize(bytesOf(text), 'the request', limit ?? 12 * MiB);
    return text;
  }

  /**
   * Repeats a call until an answer comes, or until signal is aborted, and then throws its reason. An answer of another
   * program counts as none: it goes away, or the lease ends. With once it calls once.
   */
  async call(method, path, { body, query, signal, once = false, timeout = patience } = {}) {
    const isSent = body === undefined || typeof body === 'string' || body instanceof Uint8Array;
    const text = isSent ? body : this.encode(body);
    const pauses = new Pauses(100, 5_000);
    for (let internal = 0; ;) {
      signal?.throwIfAborted();
      try {
        return await this.#try(method, path, query, text, signal, timeout);
      } catch (error) {
        signal?.throwIfAborted();
        const fault = error.code === 'internal';
        internal = fault ? internal + 1 : 0;
        if (once || !(error.passing || error.misplaced || (fault && internal < faults))) throw error;
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
    try {
      const headers = body instanceof Uint8Array ? { ...this.#headers, 'content-type': binary } : this.#headers;
      const options = { method, headers, body, signal: cut.signal, redirect: 'manual' };
      const response = await this.#fetch(url, options).catch((cause) => { throw unanswered(cause, this.#base); });
      await refuse(response, this.#base, longestRest);
      return await (response.headers.get('content-type') === binary ? content : decode)(response, this.#base);
    } finally {
      clearTimeout(timer);
      signal?.removeEventListener('abort', abort);
    }
  }
}
