// An agent in JavaScript: registers with a server, claims runs and handles them. No dependencies.

import { invalid } from './errors.js';
import { Pool } from './pool.js';

export { Failure, LeaseLost, Parked, Stopped, Unknown } from './errors.js';

/** See index.d.ts. */
export function work(agents, ...rest) {
  const handlers = typeof agents === 'string' ? { [agents]: rest.shift() } : { ...agents };
  const [options = {}] = rest;
  if (Object.keys(handlers).length === 0) throw invalid('no agent to serve: name one with its handler');
  for (const [name, handler] of Object.entries(handlers)) {
    if (typeof handler !== 'function') throw invalid(`agent "${name}" has no handler; give a function`);
  }
  const { env = {} } = globalThis.process ?? {};
  const { url = env.MAILROOM_URL || 'http://127.0.0.1:8420', token = env.MAILROOM_TOKEN } = options;
  const { slots = 4, grace = 10_000 } = options;
  if (!Number.isInteger(slots) || slots < 1 || slots > 1000) throw invalid(`slots is ${slots}; use 1 to 1000`);
  const pool = new Pool(handlers, { ...options, url, token, slots, grace });
  const stop = ({ within } = {}) => pool.stop(within);
  const done = pool.run().finally(onSignals(options, stop));
  return { ready: pool.ready, done, stop };
}

// Calls stop once for each of the caller's signals. Returns how to give them back.
function onSignals({ signal, stopOn = [] }, stop) {
  const now = () => { stop().catch(() => {}); }; // done has the error
  if (signal?.aborted) now();
  signal?.addEventListener('abort', now, { once: true });
  for (const name of stopOn) process.once(name, now);
  return () => {
    signal?.removeEventListener('abort', now);
    for (const name of stopOn) process.off(name, now);
  };
}
