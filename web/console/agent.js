// One agent: what it does, how its runs end, what is wrong with it, and who runs it.

import { html, useState } from '../vendor/preact.js';
import { client, may } from './account.js';
import { link, term } from './address.js';
import { OfAgent } from './budgets.js';
import { useLoad } from './load.js';
import { Action, Detail, Empty, Line, Modal, Problem, RunLink, Status, Time } from './parts.js';
import { Trends } from './trends.js';
import { Waits } from './waits.js';
import { cause, number } from './words.js';

const GROUPS = 10; // errors that are shown, the commonest first

async function readAll(name, signal) {
  const q = term('agent', name);
  const [agents, workers, failures, waits, budgets] = await Promise.all([
    client.agents({ signal }), client.workers({ signal }), client.failures({ q, limit: 200, signal }), client.waits({ q, signal }), client.budgets({ signal }),
  ]);
  return {
    agent: agents.find((one) => one.name === name) ?? null, workers: workers.filter(({ agents: served }) => served.includes(name)),
    errors: failures.items.sort((a, b) => b.runs - a.runs), waits,
    budgets: budgets.items.filter((budget) => budget.kind === 'agent' && budget.name === name),
  };
}

/** The page of the agent whose name is the id. */
export function AgentPage({ id }) {
  const { data, error, reload } = useLoad((signal) => readAll(id, signal), [id], ['run.']);
  const runs = (more = '') => link('runs', '', { q: `${term('agent', id)} ${more}`.trim() });
  return html`<section class="page agent">
    <h1><${Line} text=${id} /></h1>
    <${Problem} error=${error} retry=${reload} />
    ${data && !data.agent && html`<p class="hint">No agent of this name is configured or served now. Its earlier runs are listed.</p>`}
    ${data?.agent && html`<${Present} agent=${data.agent} runs=${runs} reload=${reload} />`}
    ${data && html`<${OfAgent} budgets=${data.budgets} />`}
    <p><a href=${runs()}>All its runs</a></p>
    ${data && html`<${Waits} waits=${data.waits} queued=${data.waits.runs} />
      <h2>Errors</h2>
      ${data.errors.length === 0 && html`<${Empty} title="No failed runs">Runs of it that failed for good appear here, grouped by their error.<//>`}
      ${data.errors.length > 0 && html`<ol class="plain errors">${data.errors.slice(0, GROUPS).map((group) => html`<li key=${group.group}><strong>${number(group.runs)}</strong> <a href=${runs(`status:failed ${term('group', group.group)}`)}><${Line} text=${group.message || 'The error of these runs is gone.'} /></a> <span class="note">${cause(group.class)}, last <${Time} at=${group.last_at} />, <${RunLink} id=${group.run} /></span></li>`)}</ol>
        ${data.errors.length > GROUPS && html`<p><a href=${link('failures', '', { q: term('agent', id) })}>All its errors</a></p>`}`}`}
    ${may('metrics') && html`<${Trends} of=${id} />`}
    ${data && html`<h2>Workers</h2>
      ${data.workers.length === 0 ? html`<p class="hint">No worker that you may see serves it.</p>` : html`<${Workers} workers=${data.workers} />`}`}
  </section>`;
}

function Present({ agent, runs, reload }) {
  return html`<p class="state"><${State} agent=${agent} /> ${may('admin') && html`<${Pausing} agent=${agent} done=${reload} />`}</p>
    <ul class="figures">${['running', 'queued', 'waiting'].map((status) => html`<li key=${status}><a href=${runs(`status:${status}`)}><span class="value">${number(agent[status])}</span><span class="name">${status[0].toUpperCase()}${status.slice(1)}</span></a></li>`)}</ul>
    <dl class="details">
      <${Detail} name="Kind"><${Line} text=${agent.kind ?? 'served by workers only'} /><//>
      ${agent.version && html`<${Detail} name="Version"><${Line} text=${agent.version} /><//>`}
      ${agent.program && html`<${Detail} name="Program"><${Line} text=${agent.program} /><//>`}
      ${agent.isolation && html`<${Detail} name="Isolation"><${Line} text=${agent.isolation} /><//>`}
      ${agent.retry && html`<${Detail} name="Retries"><${Line} text=${retries(agent.retry)} /><//>`}
    </dl>`;
}

/** Whether runs of an agent start, and why not. */
export function State({ agent: { paused, paused_on: on = [], available, reason } }) {
  const elsewhere = on.map(({ worker, host, probe, reason: why }) => html`<span class="hint">not on <${Line} text=${host || worker} />${probe && html`, one run probes it <${Time} at=${probe} />`}: <${Line} text=${why} /></span>`);
  if (!paused) return html`<${Status} of=${available ? 'available' : 'unavailable'} /> <span class="hint"><${Line} text=${reason ?? ''} /></span> ${elsewhere}`;
  return html`<${Status} of="paused" /> <span class="hint">by <${Line} text=${paused.by} />, <${Time} at=${paused.at} />${paused.probe && html`, one run probes it <${Time} at=${paused.probe} />`} <${Line} text=${paused.reason} /></span>`;
}

/** The button that pauses or resumes an agent. */
export function Pausing({ agent: { name, paused }, done }) {
  const [asking, setAsking] = useState(false);
  if (paused) return html`<${Action} label=${`Resume ${name}`} run=${async () => { await client.resumeAgent(name); await done(); }}>Resume<//>`;
  return html`<button type="button" class="quiet" aria-label=${`Pause ${name}`} onClick=${() => setAsking(true)}>Pause…</button>
    ${asking && html`<${Pause} name=${name} close=${() => { setAsking(false); done(); }} />`}`;
}

function Pause({ name, close }) {
  const [reason, setReason] = useState('');
  return html`<${Modal} title=${`Pause ${name}`} close=${close}>
    <p>No run of it starts until it is resumed, on any server or worker. Messages are accepted and wait; running runs go on.</p>
    <label for="reason">Reason (optional)</label>
    <input id="reason" value=${reason} maxlength="1000" autocomplete="off" onInput=${(event) => setReason(event.target.value)} />
    <p class="buttons"><${Action} kind="" run=${async () => { await client.pauseAgent(name, { reason: reason.trim() || undefined }); close(); }}>Pause<//> <button type="button" class="quiet" onClick=${close}>Cancel</button></p>
  <//>`;
}

// retries describes how the runs of an agent are retried.
function retries(retry) {
  const exits = (of, list) => (list.length > 0 ? [`${of}: exit ${list.join(' ')}`] : []);
  const outage = retry.outage ? [`an outage for ${retry.outage}`] : []; // an older server does not say it
  return [`at most ${retry.attempts} attempts, ${retry.first} to ${retry.most} apart`, ...outage, `${retry.max_crashes} lost workers in a row`,
    ...exits('not retried', retry.permanent_exits), ...exits('retried as an outage', retry.unavailable_exits)].join('; ');
}

/** A table of workers. */
export function Workers({ workers }) {
  return html`<div class="table" tabindex="0" role="region" aria-label="Workers"><table>
    <thead><tr><th>Worker</th><th>Host</th><th>Running</th><th>Lease until</th><th>Version</th><th>Agents</th></tr></thead>
    <tbody>${workers.map((worker) => html`<tr key=${worker.id}><th scope="row" class="mono"><${Line} text=${worker.id} /></th><td><${Line} text=${worker.host} /> ${worker.pid}</td><td>${number(worker.running)}</td><td><${Time} at=${worker.lease_until} /></td><td><${Line} text=${worker.version} /></td><td><${Line} text=${worker.agents.join(' ')} /></td></tr>`)}</tbody>
  </table></div>`;
}
