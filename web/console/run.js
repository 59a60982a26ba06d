// One run: what was asked and answered, and what happened when.

import { html, useEffect, useState } from '../vendor/preact.js';
import { displayLine } from '../chat/client/mailroom.js';
import { plain } from '../chat/text.js';
import { client, may } from './account.js';
import { link, term } from './address.js';
import { over, TITLES } from './decisions.js';
import { useLoad, useNow } from './load.js';
import { Markdown } from './markdown.js';
import { Action, Block, Detail, Line, Problem, RunLink, Status, ThreadLink, Time } from './parts.js';
import { Ticket } from './question.js';
import { between, duration, number, whole } from './words.js';

const MOST = 2_000; // entries of a run that are loaded

/** A run with its messages, children and entries. */
async function readRun(id, signal) {
  const run = await client.run(id, { signal });
  const [children, questions, ...messages] = await Promise.all([
    client.runs({ q: term('parent', id), limit: 100, signal }),
    run.status === 'waiting' ? client.tickets({ q: `${term('run', id)} state:open`, limit: 100, signal }) : { items: [] },
    ...run.messages.slice(0, 50).map((message) => client.message(run.thread, message, { signal }).catch(() => null)), // it may be purged
  ]);
  const entries = [];
  let after = 0;
  do {
    const page = await client.entries(run.thread, { run: id, after, limit: 500, signal });
    entries.push(...page.items);
    after = page.next;
  } while (after !== null && entries.length < MOST);
  return { run, children: children.items, questions: questions.items.filter(({ kind }) => TITLES[kind]), messages: messages.filter(Boolean), attempts: attemptsOf(entries), entries, cut: after !== null };
}

const ENDS = {
  'run.completed': 'completed', 'run.failed': 'failed', 'run.cancelled': 'cancelled', 'run.waiting': 'waiting', 'run.rescheduled': 'failed',
};

// attemptsOf returns the attempts of a run: their number, times and outcome, null while one is running.
function attemptsOf(entries) {
  const attempts = [];
  for (const { kind, attempt, at, body } of entries) {
    if (kind === 'run.started' || kind === 'run.resumed') attempts.push({ attempt, from: new Date(at).valueOf(), to: null, outcome: null });
    else if (ENDS[kind] && attempts.at(-1)?.to === null) Object.assign(attempts.at(-1), { to: new Date(at).valueOf(), outcome: ({ lease_lost: 'lost', gave_way: 'waiting' })[body?.reason] ?? ENDS[kind] });
  }
  return attempts;
}

export function RunPage({ id }) {
  const { data, error, reload } = useLoad((signal) => readRun(id, signal), [id]);
  const now = useNow(data && !data.run.finished_at ? 1 : 60);
  useEffect(() => { if (over.value.size > 0) reload(); }, [over.value]);
  if (!data) return html`<section class="page"><h1>Run</h1><${Problem} error=${error} retry=${reload} /></section>`;
  const { run, children, messages, attempts, entries, cut, questions } = data;
  return html`<section class="page run">
    <h1>Run <span class="mono small">${displayLine(run.id)}</span></h1>
    <${Problem} error=${error} retry=${reload} />
    <p class="meta"><${Status} of=${run.status} text=${run.stopping ? 'stopping' : run.status} /> <${Line} text=${run.agent} /> <${ThreadLink} id=${run.thread} /> created <${Time} at=${run.created_at} /></p>
    ${run.waits_on && html`<p class="meta waits">waits for <${Line} text=${run.waits_on.text} /> since <${Time} at=${run.waits_on.since} /></p>`}
    <${WaitsFor} run=${run} />
    ${questions.length > 0 && html`<ol class="tickets" aria-label="Questions of this run">${questions.map((ticket) => html`<${Ticket} key=${ticket.id} ticket=${ticket} />`)}</ol>`}
    <${Actions} run=${run} reload=${reload} />
    ${run.error && html`<div class="card failure"><p class="meta"><strong>${run.error.class}</strong>${run.error_group && html` <a href=${link('runs', '', { q: term('group', run.error_group) })}>runs with this error</a>`}</p><${Block} value=${run.error.message} label="Error" /></div>`}
    ${run.last_error && html`<div class="card retrying"><p class="meta"><strong>${run.last_error.class}</strong> <span>The last attempt failed. Next try <${Time} at=${run.available_at} />.</span></p><${Block} value=${run.last_error.message} label="Error of the last attempt" /></div>`}
    <${Bars} run=${run} attempts=${attempts} now=${now} />
    <div class="columns">
      <div>
        <h2>Messages</h2>
        ${messages.map((message) => html`<article class="card" key=${message.id}><p class="meta"><strong><${Line} text=${message.sender || message.role} /></strong></p><${Markdown} text=${message.text} /></article>`)}
        ${run.reply && html`<article class="card reply"><p class="meta"><strong><${Line} text=${run.agent} /></strong></p><${Markdown} text=${run.reply} /></article>`}
      </div>
      <div>
        <h2>Details</h2>
        <${Details} run=${run} children=${children} />
      </div>
    </div>
    <${Timeline} run=${run} entries=${entries} cut=${cut} />
  </section>`;
}

// WaitsFor says why an open run does not run: what it waits for, then what the run before it waits for, and so on.
function WaitsFor({ run }) {
  if (!run.waits_for?.length) return null;
  return html`<ol class="waits" aria-label="What it waits for">${run.waits_for.map((blocker, i) => html`<li key=${i}>
    ${i === 0 ? 'Waits for' : 'which waits for'} <${Line} text=${blocker.text} />${blocker.run && html` <${RunLink} id=${blocker.run} />`}${blocker.until && html` (ends <${Time} at=${blocker.until} />)`}</li>`)}</ol>`;
}

function Actions({ run, reload }) {
  return may('submit') ? html`<${Buttons} key=${run.id} run=${run} reload=${reload} />` : null;
}

function Buttons({ run, reload }) {
  const over = ['completed', 'failed', 'cancelled'].includes(run.status);
  const [dropped, setDropped] = useState(false);
  return html`<p class="tools">
    ${!over && html`<${Action} disabled=${run.stopping} run=${async () => { await client.cancel(run.id); reload(); }}>Cancel<//>`}
    ${(run.status === 'failed' || run.status === 'cancelled') && html`<${Action} run=${async () => { await client.retry(run.id); reload(); }}>Retry<//>`}
    ${over && html`<${Action} disabled=${dropped} label="Drop the session that the agent keeps for this conversation" run=${async () => { await client.patchThread(run.thread, { dropSession: true }); setDropped(true); }}>Drop the session<//>`}
    ${dropped && html`<span class="hint" role="status">The next run of the conversation begins a new session, with its messages.</span>`}
    <a class="button quiet" href=${`chat#${encodeURIComponent(run.thread)}`}>Open the conversation</a>
  </p>`;
}

// Bars shows the wait in the queue and the attempts as parts of the whole time.
function Bars({ run, attempts, now }) {
  const begin = new Date(run.created_at).valueOf();
  const end = Math.max(run.finished_at ? new Date(run.finished_at).valueOf() : now, begin + 1);
  const part = (kind, from, to, name) => {
    const [left, width] = [(from - begin) / (end - begin), Math.max((to - from) / (end - begin), 0.004)];
    const place = (node) => {
      if (node) [node.style.left, node.style.width] = [`${left * 100}%`, `${Math.min(width, 1 - left) * 100}%`];
    };
    return html`<li key=${name}><span class="name">${name}</span><span class="track"><span class="bar" data-kind=${kind} ref=${place}></span></span><span class="took">${duration(to - from)}</span></li>`;
  };
  const first = attempts[0]?.from ?? end;
  return html`<h2>Time</h2><ol class="bars" aria-label="Time of the run">
    ${part('queue', begin, first, 'Queue')}
    ${attempts.map((a, i) => html`
      ${part(a.outcome ?? 'running', a.from, a.to ?? end, `Attempt ${a.attempt}${a.outcome ? `: ${a.outcome}` : ''}`)}
      ${a.outcome === 'waiting' && part('wait', a.to, attempts[i + 1]?.from ?? end, 'Waiting for a decision')}`)}
  </ol>`;
}

function tokens(usage) {
  const part = (n, words) => (n > 0 ? ` (${number(n)} ${words})` : '');
  return `${number(usage.input_tokens)} in${part(usage.cache_read_tokens, 'from the cache')}, `
    + `${number(usage.output_tokens)} out${part(usage.reasoning_tokens, 'to reason')}`;
}

function Details({ run, children }) {
  const { usage } = run;
  const labels = Object.entries(run.metadata ?? {});
  return html`<dl class="details">
    <${Detail} name="Attempts">${run.attempt} of at most ${run.max_attempts} failures and ${run.max_crashes} crashes<//>
    ${run.deadline && html`<${Detail} name="Deadline"><${Time} at=${run.deadline} /><//>`}
    ${run.started_at && html`<${Detail} name="Started"><${Time} at=${run.started_at} />, after ${duration(between(run.created_at, run.started_at))} in the queue<//>`}
    ${run.finished_at && html`<${Detail} name="Finished"><${Time} at=${run.finished_at} /><//>`}
    ${usage && html`<${Detail} name="Tokens">${tokens(usage)}<//>`}
    ${usage?.model && html`<${Detail} name="Model"><${Line} text=${usage.model} /><//>`}
    ${usage?.cost_usd > 0 && html`<${Detail} name="Cost">$${usage.cost_usd.toFixed(4)}<//>`}
    ${run.parent && html`<${Detail} name="Parent"><${RunLink} id=${run.parent} /><//>`}
    ${children.length > 0 && html`<${Detail} name="Children">${children.map((child) => html`<span class="child" key=${child.id}><${Status} of=${child.status} /> <${RunLink} id=${child.id} /></span>`)}<//>`}
    ${labels.map(([name, value]) => html`<${Detail} key=${name} name=${displayLine(name)}><${Line} text=${value} /><//>`)}
    <${Detail} name="Sent by"><${Line} text=${run.origin.sender || run.origin.via} /><//>
    <${Detail} name="Mode">${run.mode}, priority ${run.priority}<//>
    ${run.key && html`<${Detail} name="Key"><code><${Line} text=${run.key} /></code><//>`}
  </dl>`;
}

function Timeline({ run, entries, cut }) {
  const attempts = [...new Set(entries.map(({ attempt }) => attempt).filter((n) => n > 0))];
  const [pair, setPair] = useState(null);
  const choose = (index, value) => setPair((old) => (old ?? attempts.slice(-2)).map((n, i) => (i === index ? Number(value) : n)));
  return html`<h2>Log</h2>
    ${attempts.length > 1 && html`<p class="tools"><button type="button" class="quiet" aria-pressed=${String(Boolean(pair))} onClick=${() => setPair(pair ? null : attempts.slice(-2))}>Compare two attempts</button>
      ${pair && pair.map((n, i) => html`<select key=${i} aria-label=${`Attempt in column ${i + 1}`} value=${n} onChange=${(event) => choose(i, event.target.value)}>${attempts.map((a) => html`<option key=${a} value=${a} selected=${a === n}>Attempt ${a}</option>`)}</select>`)}</p>`}
    ${cut && html`<p class="hint">The first ${number(MOST)} entries.</p>`}
    ${pair ? html`<div class="columns">${pair.map((n, i) => html`<${Entries} key=${i} run=${run} entries=${entries.filter(({ attempt }) => attempt === n)} />`)}</div>` : html`<${Entries} run=${run} entries=${entries} />`}`;
}

function Entries({ run, entries }) {
  return html`<ol class="entries">${entries.map((entry) => html`<li key=${entry.seq} data-kind=${entry.kind.split('.')[0]}>
    <details>
      <summary><span class="at" title=${whole(entry.at)}>+${duration(between(run.created_at, entry.at))}</span> <span class="kind">${displayLine(entry.kind)}</span> <span class="what">${summary(entry)}</span></summary>
      <${Block} value=${entry.body} label=${`Entry ${entry.seq}`} />
    </details></li>`)}</ol>`;
}

// summary says in one line what an entry is about.
function summary({ body }) {
  const text = body?.text ?? body?.parts?.map(({ text: part }) => part).filter(Boolean).join(' ') ?? body?.error?.message ?? body?.summary ?? body?.name ?? body?.prompt ?? body?.reason ?? body?.decision ?? '';
  const more = body?.name && body?.arguments !== undefined ? ` ${plain(body.arguments)}` : '';
  return displayLine(`${plain(text)}${more}`).slice(0, 300);
}
