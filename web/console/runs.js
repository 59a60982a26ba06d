// Runs, with the filter in the address.

import { html, useEffect, useState } from '../vendor/preact.js';
import { client, may } from './account.js';
import { go } from './address.js';
import { Cell, Rows, usePages } from './list.js';
import { useLoad } from './load.js';
import { Empty, Line, Modal, Problem, RunLink, Status, ThreadLink, Time } from './parts.js';
import { between, duration, number } from './words.js';

const QUICK = [
  ['All', ''], ['Running', 'status:running'], ['Queued', 'status:queued'], ['Waiting', 'status:waiting'], ['Failed', 'status:failed'], ['Completed', 'status:completed'],
];
const MOST = 10_000; // runs that are counted
const VIEWS = 'mailroom.views'; // saved filters, in this browser

/** The filter that the server gets. It leaves out deliveries, unless the user's filter has a term about them. */
const asked = (q) => (q.includes('delivery:') ? q : `${q} delivery:no`.trim());

export function Runs({ params }) {
  const q = params.q ?? '';
  const list = usePages((page) => client.runs({ q: asked(q), ...page }), [q], ['run.']);
  const [bulk, setBulk] = useState(null);
  return html`<section class="page fill">
    <h1>Runs</h1>
    <${Filter} q=${q} page="runs" label="Filter runs" hint='status:failed agent:coder error:"rate limit" created:>2026-11-01' />
    <div class="tools">
      <${Quick} q=${q} />
      <span class="gap"></span>
      <${Count} q=${asked(q)} />
      ${may('submit') && q && html`<button type="button" class="quiet" onClick=${() => setBulk('retry')}>Retry…</button><button type="button" class="quiet" onClick=${() => setBulk('cancel')}>Cancel…</button>`}
    </div>
    <${Rows} list=${list} label="Runs" head=${['Status', 'Run and thread', 'Agent', 'Created', 'Took', 'Detail']} row=${runRow}>
      ${q ? html`<${Empty} title="No runs match">Change the filter, or <a href="#/runs">show all runs</a>.<//>` : html`<${Empty} title="No runs yet">Send a message with <code>mailroom send "hello"</code> or in the <a href="chat">chat</a>.<//>`}
    <//>
    ${bulk && html`<${Bulk} kind=${bulk} q=${asked(q)} close=${() => setBulk(null)} />`}
  </section>`;
}

function runRow(run) {
  const took = run.started_at && duration(between(run.started_at, run.finished_at ?? undefined));
  return html`<${Cell} kind="state"><${Status} of=${run.status} text=${run.last_error ? 'retrying' : run.status} tone=${run.last_error ? 'warn' : undefined} /><//>
    <${Cell} kind="main"><${RunLink} id=${run.id} /> <${ThreadLink} id=${run.thread} /><//>
    <${Cell} kind="agent"><${Line} text=${run.agent} /><//>
    <${Cell} kind="time"><${Time} at=${run.created_at} /><//>
    <${Cell} kind="took">${took}${run.attempt > 1 ? ` (attempt ${run.attempt})` : ''}<//>
    <${Cell} kind="note">${run.last_error ? html`Next try <${Time} at=${run.available_at} />: <${Line} text=${run.last_error.message} />` : html`<${Line} text=${run.error?.message ?? run.reason ?? waits(run) ?? run.reply ?? ''} />`}<//>`;
}

/** The cause why an open run does not run; undefined for any other run. */
const waits = ({ waits_for: all }) => all?.length > 0 && `Waits for ${all.at(-1).text}` || undefined;

function Quick({ q }) {
  return html`<div class="quick" role="group" aria-label="Common filters">${QUICK.map(([name, of]) => html`<button type="button" key=${name} class="chip" aria-pressed=${String(q === of)} onClick=${() => go('runs', '', { q: of })}>${name}</button>`)}</div>`;
}

/** A field for the filter of a page, with saved ones. */
export function Filter({ q, page, label, hint }) {
  const [text, setText] = useState(q);
  const [views, setViews] = useState(() => savedViews()[page] ?? []);
  useEffect(() => setText(q), [q]);
  const save = (list) => {
    setViews(list);
    localStorage.setItem(VIEWS, JSON.stringify({ ...savedViews(), [page]: list }));
  };
  const saved = views.includes(q);
  return html`<form class="filter" role="search" onSubmit=${(event) => { event.preventDefault(); go(page, '', { q: text.trim() }); }}>
    <input type="search" aria-label=${label} placeholder=${hint} value=${text} maxlength="2000" spellcheck="false" autocapitalize="none" autocomplete="off" onInput=${(event) => setText(event.target.value)} />
    <button type="submit" class="quiet">Filter</button>
    ${q && html`<button type="button" class="quiet" onClick=${() => save(saved ? views.filter((view) => view !== q) : [...views, q].slice(-20))}>${saved ? 'Forget view' : 'Save view'}</button>`}
    ${views.length > 0 && html`<select aria-label="Saved views" onChange=${(event) => go(page, '', { q: event.target.value })}>
      <option value="" selected=${!saved}>Saved views</option>
      ${views.map((view) => html`<option key=${view} value=${view} selected=${view === q}>${view}</option>`)}
    </select>`}
  </form>`;
}

function savedViews() {
  try {
    return JSON.parse(localStorage.getItem(VIEWS)) ?? {};
  } catch {
    return {};
  }
}

function Count({ q }) {
  const { data, error } = useLoad((signal) => countAll(q, signal), [q], ['run.']);
  if (error || !data) return null;
  return html`<span class="count" aria-live="polite">${number(data.count)}${data.more ? '+' : ''} ${data.count === 1 && !data.more ? 'run' : 'runs'}</span>`;
}

/** Counts at most about 10,000 runs. */
async function countAll(q, signal) {
  let count = 0;
  let cursor;
  for (let pages = 0; pages < 6; pages++) {
    const part = await client.countRuns({ q, cursor, signal });
    count += part.count;
    cursor = part.next;
    if (!cursor || count >= MOST) break;
  }
  return { count, more: Boolean(cursor) };
}

const WORDS = {
  retry: { title: 'Retry runs', which: 'failed and cancelled', verb: 'Retry', done: 'retried', call: 'retryMany' },
  cancel: { title: 'Cancel runs', which: 'queued, running and waiting', verb: 'Cancel', done: 'cancelled', call: 'cancelMany' },
};

/** Retries or cancels what a filter matches: first the number, then the work with its progress, then the result. */
export function Bulk({ kind, q, close }) {
  const words = WORDS[kind];
  const [state, setState] = useState({ step: 'counting', matched: 0, changed: 0, error: null });
  const each = async (dryRun, seen) => {
    let cursor;
    do {
      const part = await client[words.call]({ q, cursor, dryRun });
      seen(part);
      cursor = part.next;
    } while (cursor);
  };
  const act = async (step, dryRun, after) => {
    setState((old) => ({ ...old, step, error: null }));
    try {
      await each(dryRun, (part) => setState((old) => (dryRun ? { ...old, matched: old.matched + part.matched } : { ...old, changed: old.changed + (part.retried ?? part.cancelled) })));
      setState((old) => ({ ...old, step: after }));
    } catch (error) {
      setState((old) => ({ ...old, step: after === 'ready' ? 'counting' : 'done', error }));
    }
  };
  useEffect(() => { act('counting', true, 'ready'); }, []);
  const { step, matched, changed, error } = state;
  return html`<${Modal} title=${words.title} close=${close}>
    <p>The filter <code>${q}</code></p>
    <p role="status">${{
      counting: `Counting… ${number(matched)}`, ready: `matches ${number(matched)} ${words.which} ${matched === 1 ? 'run' : 'runs'}.`,
      working: `${number(changed)} of ${number(matched)} ${words.done}…`, done: `${number(changed)} of ${number(matched)} ${words.done}.`,
    }[step]}</p>
    <${Problem} error=${error} />
    <p class="buttons">
      ${step === 'ready' && matched > 0 && html`<button type="button" onClick=${() => act('working', false, 'done')}>${words.verb} ${number(matched)} ${matched === 1 ? 'run' : 'runs'}</button>`}
      <button type="button" class="quiet" disabled=${step === 'working'} onClick=${close}>Close</button>
    </p>
  <//>`;
}
