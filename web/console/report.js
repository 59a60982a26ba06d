// What agents did in a night: what they ask, which branches wait for a review, how their runs ended, and what they spent.

import { html } from '../vendor/preact.js';
import { client } from './account.js';
import { address, go, link, term } from './address.js';
import { useLoad } from './load.js';
import { Action, Empty, Line, Problem, Status, Time } from './parts.js';
import { sinceOf } from './since.js';
import { compact, cost, number, whole } from './words.js';

/** Periods to choose, as in the address. */
const PERIODS = { '': 'Last 12 hours', '22:00': 'Since 22:00', today: 'Today', yesterday: 'Since yesterday', '168h': 'Last 7 days' };

/** How many open questions, decided questions and runs of an agent are shown, and how many runs of each of MANY agents. */
const [SHOWN, FEW, MANY] = [5, 2, 12];

const DECIDED = { approve: 'approved', deny: 'denied', answer: 'answered' };

const plural = (n, one, many = `${one}s`) => `${number(n)} ${n === 1 ? one : many}`;

/** Whether the worktree of a branch has work that no remote has. */
const local = ({ left, commits, pushed }) => Boolean(left) || (commits > 0 && !pushed);

/** A word of a command for a shell: threads have names that others chose. */
const word = (text) => (/^[\w./:=@,+-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);

export function Report({ params }) {
  const { since = '', until = '', agent = '' } = params;
  const read = (signal) => client.report({ since: sinceOf(since).toISOString(), until: until ? sinceOf(until).toISOString() : undefined, agent: agent || undefined, signal });
  const { data, error, reload } = useLoad(read, [since, until, agent], ['ticket.']);
  const choose = (more) => go('report', '', { ...address.value.params, ...more }, { replace: true });
  const empty = data && data.agents.length + data.questions.items.length + data.branches.length + data.more_threads + data.schedules.length === 0;
  return html`<section class="page report">
    <h1>Report</h1>
    <div class="tools">
      <span class="quick" role="group" aria-label="Period">${Object.entries(PERIODS).map(([name, title]) => html`<button key=${name} type="button" class="chip" aria-pressed=${String(name === since && !until)} onClick=${() => choose({ since: name, until: '' })}>${title}</button>`)}</span>
      ${agent && html`<button type="button" class="chip" aria-pressed="true" onClick=${() => choose({ agent: '' })}>Only <${Line} text=${agent} /> ×</button>`}
    </div>
    <div class="tools">
      <span class="count" role="status">${data && `From ${whole(data.since)} to ${whole(data.until)}`}</span>
      <span class="gap"></span>
      <${Action} run=${reload}>Refresh<//>
    </div>
    <${Problem} error=${error} retry=${reload} />
    ${data?.looked_to && html`<p class="notice">There are too many runs for one report: those that were submitted before ${whole(data.looked_to)} are left out.</p>`}
    ${empty && html`<${Empty} title="Nothing happened in this time">Runs that ended in the period and what waits now appear here. Choose another period, or <a href=${link('runs')}>show all runs</a>.<//>`}
    ${data && !empty && html`<${Figures} report=${data} /><${Questions} questions=${data.questions} /><${Branches} report=${data} /><${Agents} report=${data} /><${Schedules} report=${data} />`}
  </section>`;
}

function Figures({ report: { runs, spent, open_spent: open, questions, branches, more_branches: more } }) {
  const figures = [
    ['done', runs.completed], ['failed', runs.failed, 'bad'], ['cancelled', runs.cancelled], ['open runs', runs.waiting + runs.running + runs.queued],
    ['open questions', questions.open, 'warn'], ['branches to review', branches.length + more], ['ended by a spent budget', runs.budget, 'warn'],
  ].filter(([name, n]) => n > 0 || name === 'done' || name === 'failed');
  return html`<ul class="figures" aria-label="Sums">
    ${figures.map(([name, n, tone]) => html`<li key=${name} data-tone=${n > 0 ? tone : null}><span class="value">${number(n)}</span><span class="name">${name}</span></li>`)}
    <li><span class="value">${cost(spent)}</span><span class="name">${compact(spent.input_tokens)} tokens read, ${compact(spent.output_tokens)} written${open.cost_usd > 0 && `; open runs ${cost(open)} so far`}</span></li>
  </ul>`;
}

function Questions({ questions: { open, decided, items, more } }) {
  if (items.length === 0) return null;
  const asked = items.filter(({ state }) => state === 'open');
  const shown = [...asked.slice(0, SHOWN), ...items.slice(asked.length, asked.length + SHOWN)];
  const left = more + items.length - shown.length;
  return html`<h2>Questions</h2>
    <p class="hint">${number(open)} open, ${number(decided)} decided in this time</p>
    <ul class="needs" aria-label="Questions">${shown.map((k) => html`<li key=${k.ticket}>
      <${Status} of=${k.state === 'open' ? 'waiting' : k.state} text=${k.state === 'open' ? 'to decide' : DECIDED[k.decision] ?? k.state} tone=${k.state === 'open' ? 'warn' : 'idle'} />
      <a href=${k.state === 'open' ? link('inbox', '', { agent: k.agent }) : link('run', k.run)}><${Line} text=${k.text || 'A question without text'} /></a>
      <span class="note"><${Time} at=${k.state === 'open' ? k.opened_at : k.decided_at ?? k.expires_at} /></span>
      <span class="note most"><${Line} text=${k.agent} /> in <${Line} text=${k.thread} />${k.decided_by && html`; by <${Line} text=${k.decided_by} />`}${k.reason && html`: <${Line} text=${k.reason} />`}</span>
    </li>`)}</ul>
    ${left > 0 && html`<p><a href=${link('inbox')}>and ${number(left)} more</a></p>`}`;
}

function Branches({ report: { branches, more_branches: more, more_threads: threads } }) {
  if (branches.length === 0 && threads === 0) return null;
  return html`<h2>Branches to review</h2>
    ${branches.length > 0 && html`<ul class="needs" aria-label="Branches">${branches.map((b) => html`<li key=${b.thread}>
      <${Status} of="" text=${place(b)} tone=${local(b) || b.state === 'closed' || b.trouble ? 'warn' : 'good'} />
      ${/^https?:\/\//.test(b.pull_request) ? html`<a href=${b.pull_request} rel="noreferrer"><${Line} text=${b.branch} />${b.number > 0 && ` #${b.number}`}</a>` : html`<a href=${link('run', b.run)}><${Line} text=${b.branch} /></a>`}
      <span class="note">${plural(b.commits, 'commit')}</span>
      <span class="note most"><${Line} text=${b.agent} /> in <${Line} text=${b.thread} />, <${Time} at=${b.at} />${troubles(b).map((text) => html`; <${Line} text=${text} />`)}${b.unread && b.state_at && html`; ${b.state} as of <${Time} at=${b.state_at} />`}${local(b) && b.commits > 0 && html`; patch: <code>mailroom worktrees patch <${Line} text=${word(b.thread)} /></code>`}${b.unopened && html`; try now: <code>mailroom publish <${Line} text=${word(b.thread)} /></code>`}</span>
    </li>`)}</ul>`}
    ${more > 0 && html`<p class="hint">and ${number(more)} more</p>`}
    ${threads > 0 && html`<p class="hint">Too many threads: the branches of ${number(threads)} others were not looked up.</p>`}`;
}

// place says where a branch is.
const place = (b) => local(b) ? 'not pushed' : b.state && b.state !== 'open' ? b.state : b.pull_request ? 'pull request' : 'pushed';

// troubles says what has not worked with a branch.
const troubles = (b) => [['the push failed: ', b.unpushed], [b.again ? 'no pull request yet, the server tries again: ' : 'no pull request: ', b.unopened], [b.state === 'open' ? 'it is open, and ' : '', b.trouble], ['a later look at its state failed: ', b.unread], ['changes are left in the worktree: ', b.left]]
  .filter(([, why]) => why).map(([what, why]) => what + why);

function Agents({ report }) {
  if (report.agents.length === 0) return null;
  const span = `${report.since}..${report.until}`;
  const most = report.agents.length > MANY ? FEW : SHOWN;
  return html`<h2>Agents</h2>
    <ul class="cards" aria-label="Agents">${report.agents.map((a) => html`<li class="card" key=${a.agent}>
      <h3><a href=${link('agent', a.agent)}><${Line} text=${a.agent} /></a> ${a.paused && html`<${Status} of="paused" />`}</h3>
      <p class="meta">${counts(a.runs).map((text) => html`<span key=${text}>${text}</span>`)}<span>${cost(a.spent)}</span><span>${compact(a.spent.input_tokens + a.spent.output_tokens)} tokens</span></p>
      ${a.paused && html`<p class="note">Paused by <${Line} text=${a.paused.by} />, <${Time} at=${a.paused.at} />${a.paused.reason && html`: <${Line} text=${a.paused.reason} />`}</p>`}
      ${a.items.length > 0 && html`<ul class="latest">${a.items.slice(0, most).map((run) => html`<li key=${run.id}><a class="title" href=${link('run', run.id)}><${Line} text=${run.text || `Thread ${run.thread}`} /></a> <span class="hint"><${Status} of=${run.status} text=${run.status === 'completed' ? 'done' : run.status} />${run.finished_at && html` <${Time} at=${run.finished_at} />`}</span></li>`)}</ul>`}
      ${a.more + a.items.length > most && html`<p><a href=${link('runs', '', { q: `${term('agent', a.agent)} finished:${span}` })}>and ${number(a.more + Math.max(a.items.length - most, 0))} more</a></p>`}
    </li>`)}</ul>
    ${report.more_agents > 0 && html`<p><a href=${link('agents')}>and ${plural(report.more_agents, 'more agent')}</a></p>`}`;
}

// counts says how many runs an agent has, without kinds that have none.
const counts = (runs) => [['done', runs.completed], ['failed', runs.failed], ['cancelled', runs.cancelled], ['waiting', runs.waiting], ['running', runs.running], ['queued', runs.queued]]
  .filter(([, n]) => n > 0).map(([name, n]) => `${number(n)} ${name}`);

function Schedules({ report: { schedules, more_schedules: more } }) {
  if (schedules.length === 0) return null;
  return html`<h2>Schedules</h2>
    <ul class="needs" aria-label="Schedules">${schedules.map((s) => html`<li key=${`${s.owner} ${s.name}`}>
      <${Status} of="" text=${s.paused ? 'paused' : s.failed > 0 ? 'failed' : s.skipped > 0 ? 'skipped' : 'sent'} tone=${s.paused || s.skipped > 0 ? 'warn' : s.failed > 0 ? 'bad' : 'good'} />
      <a href=${link('schedule', `${s.owner}:${s.name}`)}><${Line} text=${s.name} /></a>
      <span class="note">${s.more && 'at least '}${number(s.sent)} sent, ${number(s.failed)} failed, ${number(s.skipped)} skipped</span>
      <span class="note most"><${Line} text=${s.paused?.note || s.why} /></span>
    </li>`)}</ul>
    ${more > 0 && html`<p><a href=${link('schedules')}>and ${number(more)} more</a></p>`}`;
}
