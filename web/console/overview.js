// What needs a person, and how the runs went.

import { html } from '../vendor/preact.js';
import { client, may } from './account.js';
import { link } from './address.js';
import { Compare } from './compare.js';
import { useLoad, useNow } from './load.js';
import { Empty, Line, Problem, Status, Time } from './parts.js';
import { Trends } from './trends.js';
import { Waits } from './waits.js';
import { between, duration, number } from './words.js';

const AT_REST = new Set(['connected', 'starting', 'standby']);
const MANY = 4; // rows of one kind of trouble, before they are one row

async function readAll(signal) {
  const [stats, waits, agents, channels, budgets, tickets, failures, groups] = await Promise.all([
    client.stats({ signal }), client.waits({ q: 'delivery:no', signal }), client.agents({ signal }), client.channels({ signal }), client.budgets({ signal }),
    client.tickets({ q: 'state:open', limit: 500, signal }), client.runs({ q: 'status:failed', limit: 5, signal }), client.failures({ limit: 200, signal }),
  ]);
  const questions = tickets.items.filter(({ kind }) => kind === 'approval' || kind === 'input');
  return { stats, waits, agents, channels, budgets: budgets.items, questions, more: Boolean(tickets.next), failures: failures.items, groups: groups.items };
}

export function Overview() {
  const { data, error, reload } = useLoad(readAll, [], ['run.', 'ticket.']);
  const now = useNow(5);
  if (!data) return html`<section class="page"><h1>Overview</h1><${Problem} error=${error} retry=${reload} /></section>`;
  const { stats, waits, agents, failures } = data;
  if (stats.threads === 0) return html`<${First} data=${data} error=${error} retry=${reload} />`;
  return html`<section class="page">
    <h1>Overview</h1>
    <${Problem} error=${error} retry=${reload} />
    <${Needs} data=${data} now=${now} />
    <p class="now">${['running', 'queued', 'waiting', 'completed'].map((status) => html`<a key=${status} href=${link('runs', '', { q: `status:${status}` })}>${number(stats.runs[status])} ${status}</a>`)}<a href=${link('threads')}>${number(stats.threads)} ${stats.threads === 1 ? 'thread' : 'threads'}</a><span>up for ${duration(between(stats.started_at, now))}</span></p>
    <${Waits} waits=${waits} queued=${stats.runs.queued} />
    ${may('metrics') && html`<${Trends} agents=${agents} /><${Compare} />`}
    <h2>Latest failures</h2>
    ${failures.length === 0 ? html`<${Empty} title="No failed runs">Runs that failed for good appear here.<//>` : html`<ol class="latest">${failures.map((run) => html`<li key=${run.id}><a class="title" href=${link('run', run.id)}><${Line} text=${run.title || `Thread ${run.thread}`} /></a> <span class="hint"><${Line} text=${run.agent} />, <${Time} at=${run.finished_at} /></span> <span class="note"><${Line} text=${run.error?.message} /></span></li>`)}</ol>`}
  </section>`;
}

/** The commands that a store without a thread begins with. */
const COMMANDS = [
  ['mailroom send "hello mailroom"', 'The agent echo answers. Then this page shows how runs go.'],
  ['mailroom send --agent tour "show me"', 'An agent that works in steps and asks for an approval, which waits in the inbox.'],
  ['mailroom agents', 'The agents that this server has, and why one cannot be used.'],
];

function First({ data, error, retry }) {
  return html`<section class="page">
    <h1>Overview</h1>
    <${Problem} error=${error} retry=${retry} />
    ${trouble(data).length > 0 && html`<${Needs} data=${data} now=${Date.now()} />`}
    <h2>Nothing was sent yet</h2>
    <p class="hint">Begin in a terminal on the server, or write to an agent in <a href="chat">the chat</a>.</p>
    <ol class="first">${COMMANDS.map(([command, what]) => html`<li key=${command}><pre class="block" tabindex="0" aria-label="Command">${command}</pre><span class="hint">${what}</span></li>`)}</ol>
  </section>`;
}

// trouble returns the agents and channels that do not work although something waits for them, and the budgets that stop something.
function trouble({ agents, channels, budgets }) {
  const one = (of, name, href, note, key) => ({ key, of, text: name, href, note });
  const down = channels.filter(({ state }) => !AT_REST.has(state))
    .map((channel) => ({ ...one(channel.state, channel.name, link('channels'), channel.reason, `c ${channel.name}`), kind: 'channel' }));
  const paused = agents.filter((agent) => agent.paused).map((agent) => ({
    ...one('paused', agent.name, link('agent', agent.name), `by ${agent.paused.by}${agent.paused.reason && `: ${agent.paused.reason}`}; ${number(agent.queued)} queued`, `p ${agent.name}`), kind: 'agent', at: agent.paused.at,
  }));
  const gone = agents.filter((agent) => !agent.paused && !agent.available && agent.queued > 0)
    .map((agent) => ({ ...one('unavailable', agent.name, link('agent', agent.name), `${number(agent.queued)} queued, ${agent.reason}`, `g ${agent.name}`), kind: 'agent' }));
  const spent = budgets.filter(({ state }) => state === 'spent').map(({ kind, name, period, text, end }) => ({
    ...one('spent', `budget of ${kind === 'owner' ? 'token' : kind} ${name}`, link('budgets', '', { show: 'spent' }), `${text}: nothing of it starts until it is raised${period === 'life' ? '' : ` or the next ${period} begins`}`, `b ${kind} ${name} ${period}`), kind: '', at: end,
  }));
  return [[down, link('channels'), 'channels'], [paused, link('agents', '', { show: 'trouble' }), 'agents'], [gone, link('agents', '', { show: 'trouble' }), 'agents'], [spent, link('budgets', '', { show: 'spent' }), 'budgets']]
    .flatMap(([list, href, kind]) => (list.length <= MANY ? list : [{ key: `${kind} ${list[0].of}`, of: list[0].of, kind: '', text: `${number(list.length)} ${kind}`, href, note: `${list.slice(0, MANY).map(({ text }) => text).join(', ')}, …` }]));
}

/** What a person has to do, the most urgent first. */
function Needs({ data, now }) {
  const { stats, agents, channels, questions, more, groups } = data;
  const rows = trouble(data);
  const worst = groups.reduce((most, group) => (group.runs > (most?.runs ?? 0) ? group : most), null);
  const idle = agents.filter((agent) => !agent.available && !agent.paused && agent.queued === 0);
  if (questions.length + stats.runs.failed + rows.length === 0) {
    return html`<p class="hint">Nothing needs you: no open question, no failed run, ${idle.length === 0 ? 'all agents available' : html`<a href=${link('agents', '', { show: 'gone' })}>${idle.length === 1 ? '1 agent' : `${number(idle.length)} agents`} without queued runs unavailable</a>`}${channels.length > 0 ? ', all channels connected' : ''}.</p>`;
  }
  return html`<h2>Needs you</h2>
    <ul class="needs">
      ${questions.length > 0 && html`<li><${Status} of="waiting" text="to decide" /><a href=${link('inbox')}>${number(questions.length)}${more ? '+' : ''} open ${questions.length === 1 && !more ? 'question' : 'questions'}</a><span class="note">the oldest for ${age(questions, more, now)}</span></li>`}
      ${stats.runs.failed > 0 && html`<li><${Status} of="failed" /><a href=${link('failures')}>${number(stats.runs.failed)} ${stats.runs.failed === 1 ? 'run' : 'runs'} failed for good</a><span class="note">${worst && html`last <${Time} at=${groups[0].last_at} />`}</span>
        ${worst && html`<span class="note most">${number(worst.runs)} of them: <${Line} text=${worst.message || 'an error that is gone'} /></span>`}</li>`}
      ${rows.map((row) => html`<li key=${row.key}><${Status} of=${row.of} text=${row.kind === 'agent' || row.of === 'paused' || row.of === 'unavailable' || row.of === 'spent' ? row.of : 'down'} tone=${row.of === 'queued' ? 'warn' : undefined} /><a href=${row.href}>${row.kind && `${row.kind} `}<${Line} text=${row.text} /></a><span class="note">${row.at && html`<${Time} at=${row.at} />`}</span><span class="note most"><${Line} text=${row.note} /></span></li>`)}
    </ul>
    ${stats.oldest_due_ms > 60_000 && html`<p class="hint">The oldest run that could start has waited for ${duration(stats.oldest_due_ms)}.</p>`}`;
}

// age returns for how long the oldest question has been open. questions are newest first; if the server has more, the
// last one gives only a lower bound. The age is unknown if an older server does not say when a question was opened.
function age(questions, more, now) {
  if (questions.length === 0) return more ? 'unknown' : 'none';
  const { opened_at: opened } = questions.at(-1);
  return opened ? `${more ? 'over ' : ''}${duration(between(opened, now))}` : 'unknown';
}
