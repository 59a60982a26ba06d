// Retries or cancels many runs.

import { html, useEffect, useState } from '../vendor/preact.js';
import { client } from './account.js';
import { Modal, Problem } from './parts.js';
import { number } from './words.js';

const KINDS = {
  retry: { title: 'Retry runs', verb: 'Retry', states: ['failed', 'cancelled'], done: 'retried', one: (id) => client.retry(id), many: (of) => client.retryMany(of) },
  cancel: { title: 'Cancel runs', verb: 'Cancel', states: ['queued', 'running', 'waiting'], done: 'cancelled', one: (id) => client.cancel(id), many: (of) => client.cancelMany(of) },
};

/** The operations that change runs with one of these states. */
export const kindsFor = (states) => Object.keys(KINDS).filter((kind) => KINDS[kind].states.some((state) => states.includes(state)));

/** Those of the runs that an operation changes, in the order in which it does: no queued run may start because the one before it was cancelled. */
export function changeable(kind, runs) {
  const some = runs.filter(({ status, stopping }) => KINDS[kind].states.includes(status) && !stopping);
  return kind === 'retry' ? some.toReversed() : some;
}

const all = (states) => `${states.slice(0, -1).join(', ')} and ${states.at(-1)}`;
const runsOf = (n) => `${number(n)} ${n === 1 ? 'run' : 'runs'}`;

/** Retries or cancels what a filter matches, or these runs: first the number, then the work with its progress, then the result. */
export function Bulk({ kind, q, runs, selected, close }) {
  const { title, verb, states, done, one, many } = KINDS[kind];
  const [state, setState] = useState({ step: runs ? 'ready' : 'counting', matched: runs?.length ?? 0, changed: 0, error: null });
  const [named] = useState(runs); // the list goes on to change
  const eachMatch = async (dryRun, seen) => {
    let cursor;
    do {
      const part = await many({ q, cursor, dryRun });
      seen(part.matched, part.retried ?? part.cancelled);
      cursor = part.next;
    } while (cursor);
  };
  const eachNamed = async (seen) => {
    let refused = null;
    for (const { id } of named) {
      try {
        await one(id);
        seen(0, 1);
      } catch (error) { // it may have ended since
        if (error.code !== 'conflict' && error.code !== 'not_found') throw error;
        refused = error;
      }
    }
    if (refused) throw refused;
  };
  const act = async (step, dryRun, after) => {
    setState((old) => ({ ...old, step, error: null }));
    try {
      const seen = (matched, changed) => setState((old) => (dryRun ? { ...old, matched: old.matched + matched } : { ...old, changed: old.changed + changed }));
      await (named ? eachNamed(seen) : eachMatch(dryRun, seen));
      setState((old) => ({ ...old, step: after }));
    } catch (error) {
      setState((old) => ({ ...old, step: after === 'ready' ? 'counting' : 'done', error }));
    }
  };
  useEffect(() => { if (!named) act('counting', true, 'ready'); }, []);
  const { step, matched, changed, error } = state;
  const ready = named
    ? `${number(matched)} of ${number(selected)} selected ${selected === 1 ? 'run' : 'runs'} ${matched === 1 ? 'is' : 'are'} ${all(states).replace(' and ', ' or ')}.`
    : `matches ${number(matched)} ${all(states)} ${matched === 1 ? 'run' : 'runs'}.`;
  return html`<${Modal} title=${title} close=${close}>
    ${!named && html`<p>The filter <code>${q}</code></p>`}
    <p role="status">${{
      counting: `Counting… ${number(matched)}`, ready,
      working: `${number(changed)} of ${number(matched)} ${done}…`, done: `${number(changed)} of ${number(matched)} ${done}.`,
    }[step]}</p>
    <${Problem} error=${error} />
    <p class="buttons">
      ${step === 'ready' && matched > 0 && html`<button type="button" onClick=${() => act('working', false, 'done')}>${verb} ${runsOf(matched)}</button>`}
      <button type="button" class="quiet" disabled=${step === 'working'} onClick=${close}>Close</button>
    </p>
  <//>`;
}
