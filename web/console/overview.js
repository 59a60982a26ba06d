// What needs attention, in figures.

import { html } from '../vendor/preact.js';
import { client, may } from './account.js';
import { link } from './address.js';
import { useLoad, useNow } from './load.js';
import { Empty, Line, Problem, Status, Time } from './parts.js';
import { Trends } from './trends.js';
import { Waits } from './waits.js';
import { between, duration, number } from './words.js';

const AT_REST = new Set(['connected', 'starting', 'standby']);

async function readAll(signal) {
  const [stats, waits, agents, channels, tickets, failures] = await Promise.all([
    client.stats({ signal }), client.waits({ q: 'delivery:no', signal }), client.agents({ signal }), client.channels({ signal }),
    client.tickets({ q: 'state:open', limit: 500, signal }), client.runs({ q: 'status:failed', limit: 8, signal }),
  ]);
  const questions = tickets.items.filter(({ kind }) => kind === 'approval' || kind === 'input');
  return { stats, waits, agents, channels, questions, more: Boolean(tickets.next), failures: failures.items };
}

export function Overview() {
  const { data, error, reload } = useLoad(readAll, [], ['run.', 'ticket.']);
  const now = useNow(5);
  if (!data) return html`<section class="page"><h1>Overview</h1><${Problem} error=${error} retry=${reload} /></section>`;
  const { stats, waits, agents, channels, questions, more, failures } = data;
  const paused = agents.filter((agent) => agent.paused);
  const gone = agents.filter((agent) => !agent.available && agent.queued > 0);
  const idle = agents.filter((agent) => !agent.available && agent.queued === 0);
  const down = channels.filter(({ state }) => !AT_REST.has(state));
  return html`<section class="page">
    <h1>Overview</h1>
    <${Problem} error=${error} retry=${reload} />
    <ul class="figures">
      <${Figure} name="Open questions" value=${`${number(questions.length)}${more ? '+' : ''}`} href=${link('inbox')} tone=${questions.length > 0 ? 'warn' : ''} />
      <${Figure} name="Oldest question" value=${age(questions, more, now)} href=${link('inbox')} />
      <${Figure} name="Running" value=${number(stats.runs.running)} href=${link('runs', '', { q: 'status:running' })} />
      <${Figure} name="Queued" value=${number(stats.runs.queued)} href=${link('runs', '', { q: 'status:queued' })} />
      <${Figure} name="Waiting" value=${number(stats.runs.waiting)} href=${link('runs', '', { q: 'status:waiting' })} />
      <${Figure} name="Failed" value=${number(stats.runs.failed)} href=${link('failures')} tone=${stats.runs.failed > 0 ? 'bad' : ''} />
      <${Figure} name="Completed" value=${number(stats.runs.completed)} href=${link('runs', '', { q: 'status:completed' })} />
      <${Figure} name="Oldest due work" value=${stats.oldest_due_ms > 0 ? duration(stats.oldest_due_ms) : 'none'} tone=${stats.oldest_due_ms > 60_000 ? 'warn' : ''} />
      <${Figure} name="Threads" value=${number(stats.threads)} href=${link('threads')} />
    </ul>
    <${Waits} waits=${waits} queued=${stats.runs.queued} />
    <h2>Needs attention</h2>
    ${paused.length + gone.length + down.length === 0 ? html`<p class="hint">${idle.length === 0 ? 'All agents available' : html`<a href=${link('agents')}>${idle.length === 1 ? '1 agent' : `${number(idle.length)} agents`} without queued runs unavailable</a>`}${channels.length > 0 ? ', all channels connected' : ''}.</p>` : html`<ul class="plain">
      ${down.map((channel) => html`<li key=${`c ${channel.name}`}><${Status} of=${channel.state} tone=${channel.state === 'queued' ? 'warn' : undefined} /> <span>channel <a href=${link('channels')}><${Line} text=${channel.name} /></a>: <${Line} text=${channel.reason} /></span></li>`)}
      ${paused.map((agent) => html`<li key=${`p ${agent.name}`}><${Status} of="paused" /> <span>agent <a href=${link('agent', agent.name)}><${Line} text=${agent.name} /></a>, by <${Line} text=${agent.paused.by} /> <${Time} at=${agent.paused.at} />; ${number(agent.queued)} queued</span></li>`)}
      ${gone.map((agent) => html`<li key=${`g ${agent.name}`}><${Status} of="unavailable" /> <span>agent <a href=${link('agent', agent.name)}><${Line} text=${agent.name} /></a>: ${number(agent.queued)} queued, <${Line} text=${agent.reason} /></span></li>`)}
    </ul>`}
    ${may('metrics') && html`<${Trends} agents=${agents} />`}
    <h2>Latest failures</h2>
    ${failures.length === 0 ? html`<${Empty} title="No failed runs">Runs that failed for good appear here.<//>` : html`<ol class="latest">${failures.map((run) => html`<li key=${run.id}><a class="title" href=${link('run', run.id)}><${Line} text=${run.title || `Thread ${run.thread}`} /></a> <span class="hint"><${Line} text=${run.agent} />, <${Time} at=${run.finished_at} /></span> <span class="note"><${Line} text=${run.error?.message} /></span></li>`)}</ol>`}
    <p class="hint">The server started ${duration(between(stats.started_at, now))} ago.</p>
  </section>`;
}

// age returns for how long the oldest question has been open. questions are newest first; if the server has more, the
// last one gives only a lower bound. The age is unknown if an older server does not say when a question was opened.
function age(questions, more, now) {
  if (questions.length === 0) return more ? 'unknown' : 'none';
  const { opened_at: opened } = questions.at(-1);
  return opened ? `${more ? 'over ' : ''}${duration(between(opened, now))}` : 'unknown';
}

const Figure = ({ name, value, href, tone = '' }) => html`<li data-tone=${tone}>${href ? html`<a href=${href}><span class="value">${value}</span><span class="name">${name}</span></a>` : html`<span class="value">${value}</span><span class="name">${name}</span>`}</li>`;
