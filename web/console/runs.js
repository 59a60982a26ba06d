// Runs, with the filter in the address.

import { html, useLayoutEffect, useState } from '../vendor/preact.js';
import { client, may } from './account.js';
import { go, link } from './address.js';
import { Bulk, changeable, kindsFor } from './bulk.js';
import { Columns, useColumns } from './columns.js';
import { isEmpty, usePages } from './list.js';
import { useLoad } from './load.js';
import { Empty, Line, Status, Time } from './parts.js';
import { Rows } from './rows.js';
import { ago, between, compact, cost, dollars, duration, number, short } from './words.js';

const QUICK = [
  ['All', ''], ['Running', 'status:running'], ['Queued', 'status:queued'], ['Waiting', 'status:waiting'], ['Failed', 'status:failed'],
  ['Cancelled', 'status:cancelled'], ['Completed', 'status:completed'],
];
const STATES = ['queued', 'running', 'waiting', 'completed', 'failed', 'cancelled'];
const MOST = 10_000; // runs that are counted
const VIEWS = 'mailroom.views'; // saved filters, in this browser

/** The filter that the server gets. It leaves out deliveries, unless the user's filter has a term about them. */
const asked = (q) => (q.includes('delivery:') ? q : `${q} delivery:no`.trim());

const COLUMNS = [
  { id: 'agent', name: 'Agent', from: 0, track: 'minmax(4rem, 6.5rem)', cell: (run) => html`<${Line} text=${run.agent} />` },
  { id: 'status', name: 'Status', from: 0, track: '6.5rem', cell: state },
  { id: 'sender', name: 'Sender', from: 85, track: 'minmax(4rem, 6.5rem)', named: true, cell: (run) => html`<${Line} text=${run.origin.sender || run.origin.via} />` },
  { id: 'created', name: 'Created', from: 0, track: '4.75rem', kind: 'soft', cell: (run) => html`<${Time} at=${run.created_at} />` },
  { id: 'took', name: 'Took', from: 0, track: '4.75rem', kind: 'soft figure', cell: (run) => run.started_at && duration(between(run.started_at, run.finished_at ?? undefined)) },
  { id: 'attempts', name: 'Attempts', from: 85, track: '4.25rem', kind: 'soft figure', named: true, cell: (run) => run.attempt || '' },
  { id: 'tokens', name: 'Tokens', from: 110, track: '4.25rem', kind: 'soft figure', named: true, cell: ({ usage }) => usage && compact(usage.input_tokens + usage.output_tokens) },
  { id: 'cost', name: 'Cost', from: 85, track: '5rem', kind: 'soft figure', named: true, cell: ({ usage }) => usage?.cost_usd > 0 && (usage.computed_usd > 0 ? html`<span title=${cost(usage)}>≈${dollars(usage.cost_usd)}</span>` : dollars(usage.cost_usd)) },
  { id: 'thread', name: 'Thread', from: 110, track: 'minmax(4rem, 8rem)', kind: 'soft', named: true, cell: (run) => html`<${Line} text=${run.thread} />` },
  { id: 'id', name: 'Run', from: 110, track: '6.25rem', kind: 'soft id', named: true, cell: (run) => short(run.id) },
];

function state(run) {
  const retrying = run.last_error && { text: 'retrying', tone: 'warn' };
  return html`<${Status} of=${run.status} text=${retrying?.text ?? (run.stopping ? 'stopping' : run.status)} tone=${retrying?.tone} />`;
}

const ABOUT = {
  href: (run) => link('run', run.id),
  title: (run) => run.title || `Thread ${run.thread}`, // a message without a text
  note,
};

/** The second line of a run: why it failed, or why it does not run. */
function note(run) {
  if (run.last_error) return html`Next try ${ago(run.available_at)}: <${Line} text=${run.last_error.message} />`;
  const text = run.error?.message ?? run.reason ?? (run.waits_for?.length > 0 ? `Waits for ${run.waits_for.at(-1).text}` : '');
  return text && text !== run.status && html`<${Line} text=${text} />`;
}

export function Runs({ params }) {
  const q = params.q ?? '';
  const list = usePages((page) => client.runs({ q: asked(q), ...page }), [q], ['run.']);
  const columns = useColumns('runs', COLUMNS);
  const [picked, pick] = useState(new Set());
  const [bulk, setBulk] = useState(null);
  useLayoutEffect(() => pick(new Set()), [q]);
  const selected = list.items.filter(({ id }) => picked.has(id));
  return html`<section class="page fill">
    <h1>Runs</h1>
    <${Filter} q=${q} page="runs" label="Filter runs" hint='status:failed agent:coder error:"rate limit" created:>2026-11-01' />
    <div class="tools">
      <${Quick} q=${q} />
      <span class="gap"></span>
      ${selected.length > 0 ? html`<${Selection} runs=${selected} act=${setBulk} clear=${() => pick(new Set())} />` : html`<${Count} q=${asked(q)} />${!isEmpty(list) && html`<${Matching} q=${q} act=${setBulk} />`}`}
      ${!isEmpty(list) && html`<${Columns} of=${columns} />`}
    </div>
    <${Rows} list=${list} label="Runs" name="Message" about=${ABOUT} columns=${columns.shown} picked=${may('submit') ? picked : null} pick=${pick}>
      ${q ? html`<${Empty} title="No runs match">Change the filter, or <a href="#/runs">show all runs</a>.<//>` : html`<${Empty} title="No runs yet">Send a message with <code>mailroom send "hello"</code> or in the <a href="chat">chat</a>.<//>`}
    <//>
    ${bulk && html`<${Bulk} ...${bulk} close=${() => setBulk(null)} />`}
  </section>`;
}

const VERBS = { retry: 'Retry', cancel: 'Cancel' };

// Selection says how many runs are selected, and offers what their states allow.
function Selection({ runs, act, clear }) {
  return html`<span class="count" role="status">${number(runs.length)} selected</span>
    ${kindsFor(runs.map(({ status }) => status)).map((kind) => {
      const some = changeable(kind, runs);
      return some.length > 0 && html`<button type="button" key=${kind} class="quiet" onClick=${() => act({ kind, runs: some, selected: runs.length })}>${VERBS[kind]} ${number(some.length)}…</button>`;
    })}
    <button type="button" class="quiet" onClick=${clear}>Clear</button>`;
}

// Matching offers what can be done with all runs that a filter matches.
function Matching({ q, act }) {
  if (!may('submit') || !q) return null;
  const [, named] = /(?:^|\s)status:([\w,]+)/.exec(q) ?? [];
  return kindsFor(named?.split(',') ?? STATES).map((kind) => html`<button type="button" key=${kind} class="quiet" onClick=${() => act({ kind, q: asked(q) })}>${VERBS[kind]}…</button>`);
}

function Quick({ q }) {
  return html`<div class="quick" role="group" aria-label="Common filters">${QUICK.map(([name, of]) => html`<button type="button" key=${name} class="chip" aria-pressed=${String(q === of)} onClick=${() => go('runs', '', { q: of })}>${name}</button>`)}</div>`;
}

/** A field for the filter of a page, with saved ones. */
export function Filter({ q, page, label, hint }) {
  const [text, setText] = useState(q);
  const [views, setViews] = useState(() => savedViews()[page] ?? []);
  useLayoutEffect(() => setText(q), [q]); // an effect would come after what a fast user types
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
