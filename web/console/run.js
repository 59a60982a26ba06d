// One run: what was asked and answered, and what happened when.

import { html, useEffect, useState } from '../vendor/preact.js';
import { displayLine } from '../chat/client/mailroom.js';
import { cut } from '../chat/text.js';
import { client, may } from './account.js';
import { link, term } from './address.js';
import { Attempts } from './attempts.js';
import { over, TITLES } from './decisions.js';
import { useLoad, useNow } from './load.js';
import { Log } from './log.js';
import { Markdown } from './markdown.js';
import { Action, Block, Detail, Line, Problem, RunLink, Status, ThreadLink, Time } from './parts.js';
import { Ticket } from './question.js';
import { Retry } from './retry.js';
import { RunBudget } from './run-budget.js';
import { useLogs } from './runlog.js';
import { isSilent } from './silent.js';
import { ended } from './spans.js';
import { Waterfall } from './waterfall.js';
import { between, cause, cost, duration, number } from './words.js';

const CHILDREN = 10; // runs that it sent that the details name
const MESSAGES = 50; // of a run that are shown

// readOpen reads the open questions of a run.
async function readOpen(run, signal) {
  if (run?.status !== 'waiting') return [];
  const { items } = await client.tickets({ q: `${term('run', run.id)} state:open`, limit: 100, signal });
  return items.filter(({ kind }) => TITLES[kind]);
}

async function readMessages({ thread, messages }, signal) {
  const found = await Promise.all(messages.slice(0, MESSAGES).map((id) => client.message(thread, id, { signal }).catch(() => null))); // it may be purged
  return found.filter(Boolean);
}

// asked returns the first words of the messages, as the heading of the page: an id tells a person nothing.
function asked(messages) {
  const text = messages?.find((message) => message.text.trim())?.text ?? '';
  return cut(text.slice(0, 10_000).replace(/[*_`#>]/g, '').trim().split('\n')[0], 120);
}

/** The page of the run whose id is given. */
export function RunPage({ id }) {
  const logs = useLogs(id);
  const log = logs.root;
  const reload = () => logs.refresh(id);
  useEffect(() => { if (over.value.size > 0) reload(); }, [over.value]);
  if (!log?.run) return html`<section class="page"><h1>Run</h1><${Problem} error=${log?.error} retry=${() => logs.reload(id)} /></section>`;
  return html`<${Page} logs=${logs} run=${log.run} reload=${reload} />`;
}

function Page({ logs, run, reload }) {
  const log = logs.root;
  const { data: questions } = useLoad((signal) => readOpen(run, signal), [run.id, run.status, run.wait?.tickets.join(' ')], ['ticket.']);
  const { data: messages } = useLoad((signal) => readMessages(run, signal), [run.id, run.messages.join(' ')], ['message.edited', 'message.retracted']);
  const [wanted, setWanted] = useState(null);
  return html`<section class="page run">
    <h1><${Line} text=${asked(messages) || 'Run'} /></h1>
    <${Problem} error=${log.error} retry=${() => logs.reload(run.id)} />
    <p class="meta"><${Status} of=${run.status} text=${run.stopping ? 'stopping' : run.status} /> <${Line} text=${run.agent} /> <${ThreadLink} id=${run.thread} /> created <${Time} at=${run.created_at} /> <span class="mono small">${displayLine(run.id)}</span></p>
    ${run.waits_on && html`<p class="meta waits">waits for <${Line} text=${run.waits_on.text} /> since <${Time} at=${run.waits_on.since} /></p>`}
    <${WaitsFor} run=${run} />
    ${questions?.length > 0 && html`<ol class="tickets" aria-label="Questions of this run">${questions.map((ticket) => html`<${Ticket} key=${ticket.id} ticket=${ticket} />`)}</ol>`}
    <${Actions} log=${log} run=${run} reload=${reload} />
    ${run.error && html`<div class="card failure"><p class="meta"><strong>${cause(run.error.class)[0].toUpperCase()}${cause(run.error.class).slice(1)}</strong>${run.error_group && html` <a href=${link('runs', '', { q: term('group', run.error_group) })}>All runs with this error</a>`}</p><${Block} value=${run.error.message} label="Error" /></div>`}
    ${run.last_error && html`<div class="card retrying"><p class="meta"><strong>${cause(run.last_error.class)[0].toUpperCase()}${cause(run.last_error.class).slice(1)}</strong> <span>The last attempt failed. Next try <${Time} at=${run.available_at} />.</span></p><${Block} value=${run.last_error.message} label="Error of the last attempt" /></div>`}
    ${log.entries.length > 0 && html`<${Timed} logs=${logs} running=${!run.finished_at} show=${(seq) => setWanted({ seq })} />`}
    <${RunBudget} run=${run} children=${log.children} more=${log.nextChildren} />
    <${Attempts} logs=${logs} />
    <div class="columns">
      <div>
        <h2>Messages</h2>
        ${messages?.map((message) => html`<article class="card" key=${message.id}><p class="meta"><strong><${Line} text=${message.sender || message.role} /></strong></p><${Markdown} text=${message.text} /></article>`)}
        ${run.messages.length > MESSAGES && html`<p class="hint">The first ${MESSAGES} of ${number(run.messages.length)} messages.</p>`}
        ${run.reply && html`<${Reply} run=${run} />`}
      </div>
      <div>
        <h2>Details</h2>
        <${Details} run=${run} made=${log.entries.findLast(({ kind }) => kind === 'x.exec.tree')?.body} children=${log.children} nextChildren=${log.nextChildren} />
      </div>
    </div>
    <${Log} logs=${logs} wanted=${wanted} />
  </section>`;
}

// Timed draws the time again each second while the run goes on, without the rest of the page.
function Timed({ logs, running, show }) {
  const now = useNow(running ? 1 : 60);
  return html`<${Waterfall} logs=${logs} now=${Math.max(now, Date.now() - 1000)} show=${show} />`;
}

// WaitsFor says why an open run does not run: what it waits for, then what the run before it waits for, and so on.
function WaitsFor({ run }) {
  if (!run.waits_for?.length) return null;
  return html`<ol class="waits" aria-label="What it waits for">${run.waits_for.map((blocker, i) => html`<li key=${i}>
    ${i === 0 ? 'Waits for' : 'which waits for'} <${Line} text=${blocker.text} />${blocker.run && html` <${RunLink} id=${blocker.run} />`}${blocker.until && html` (ends <${Time} at=${blocker.until} />)`}</li>`)}</ol>`;
}

function Actions({ log, run, reload }) {
  return may('submit') ? html`<${Buttons} key=${log.id} log=${log} run=${run} reload=${reload} />` : null;
}

function Buttons({ log, run, reload }) {
  const over = ended(run.status);
  const [dropped, setDropped] = useState(false);
  return html`<p class="tools">
    ${!over && html`<${Action} disabled=${run.stopping} run=${async () => { await client.cancel(run.id); reload(); }}>Cancel<//>`}
    ${(run.status === 'failed' || run.status === 'cancelled') && html`<${Retry} log=${log} done=${reload} />`}
    ${over && html`<${Action} disabled=${dropped} label="Drop the session that the agent keeps for this conversation" run=${async () => { await client.patchThread(run.thread, { dropSession: true }); setDropped(true); }}>Drop the session<//>`}
    ${dropped && html`<span class="hint" role="status">The next run of the conversation begins a new session, with its messages.</span>`}
    <a class="button quiet" href=${`chat#${encodeURIComponent(run.thread)}`}>Open the conversation</a>
  </p>`;
}

function tokens(usage) {
  const part = (n, words) => (n > 0 ? ` (${number(n)} ${words})` : '');
  return `${number(usage.input_tokens)} in${part(usage.cache_read_tokens, 'from the cache')}, `
    + `${number(usage.output_tokens)} out${part(usage.reasoning_tokens, 'to reason')}`;
}

/** The reply. One that is the silent word of its schedule alone is dimmed, and no chat got it. */
function Reply({ run }) {
  const silent = isSilent(run.reply, run.metadata?.silent_word ?? '');
  return html`<article class=${`card reply ${silent ? 'silent' : ''}`}><p class="meta"><strong><${Line} text=${run.agent} /></strong>${silent && html` <span>has nothing to say: no chat gets this reply</span>`}</p><${Markdown} text=${run.reply} /></article>`;
}

/** What the branch of the run's worktree has. Agents write the entry, so no field need be there. */
function branchText({ branch, commits, head, pushed, pull_request: pullRequest, unpushed, unopened, stale, left, pointers }) {
  const parts = [`${branch}, ${commits === 1 ? '1 commit' : `${number(Number(commits) || 0)} commits`}`];
  if (head) parts.push(`, at ${String(head).slice(0, 12)}`);
  if (pushed) parts.push(`, pushed to ${pushed}`);
  if (pullRequest) parts.push(`, ${pullRequest}`);
  if (stale) parts.push(`; perhaps not the newest base: ${stale}`);
  if (unpushed) parts.push(`; not pushed: ${unpushed}`);
  if (unopened) parts.push(`; no pull request: ${unopened}`);
  if (left) parts.push(`; changes are left in the worktree: ${left}`);
  if (pointers) parts.push(`; files without their content: ${pointers}`);
  return parts.join('');
}

function Details({ run, made, children, nextChildren }) {
  const { usage } = run;
  const labels = Object.entries(run.metadata ?? {});
  return html`<dl class="details">
    <${Detail} name="Attempts">${number(run.attempt)}, of which ${number(run.failures)} failed. Limit: ${run.max_attempts === 1 ? '1 failure' : `${number(run.max_attempts)} failures`}${run.max_crashes > 0 ? `, or ${number(run.max_crashes)} lost workers in a row` : run.max_crashes === 0 ? ', or one lost worker' : ''}.<//>
    ${run.deadline && html`<${Detail} name="Deadline"><${Time} at=${run.deadline} /><//>`}
    ${run.started_at && html`<${Detail} name="Started"><${Time} at=${run.started_at} />, after ${duration(between(run.created_at, run.started_at))} in the queue<//>`}
    ${run.finished_at && html`<${Detail} name="Finished"><${Time} at=${run.finished_at} /><//>`}
    ${usage && html`<${Detail} name="Tokens">${tokens(usage)}<//>`}
    ${usage?.model && html`<${Detail} name="Model"><${Line} text=${usage.model} /><//>`}
    ${usage?.cost_usd > 0 && html`<${Detail} name="Cost">${cost(usage)}<//>`}
    ${made?.branch && html`<${Detail} name="Branch"><${Line} text=${branchText(made)} /><//>`}
    ${run.parent && html`<${Detail} name="Parent"><${RunLink} id=${run.parent} /><//>`}
    ${children.length > 0 && html`<${Detail} name="Children">${children.slice(0, CHILDREN).map((child) => html`<span class="child" key=${child.id}><${Status} of=${child.status} /> <${RunLink} id=${child.id} /></span>`)}${(children.length > CHILDREN || nextChildren) && html`<a href=${link('runs', '', { q: term('parent', run.id) })}>all of them</a>`}<//>`}
    ${labels.map(([name, value]) => html`<${Detail} key=${name} name=${displayLine(name)}><${Line} text=${value} /><//>`)}
    <${Detail} name="Sent by"><${Line} text=${run.origin.sender || run.origin.via} /><//>
    <${Detail} name="Mode">${run.mode}, priority ${run.priority}<//>
    ${run.concurrency_key && html`<${Detail} name="Concurrency key"><code><${Line} text=${run.concurrency_key} /></code><//>`}
    ${run.key && html`<${Detail} name="Key"><code><${Line} text=${run.key} /></code><//>`}
  </dl>`;
}
