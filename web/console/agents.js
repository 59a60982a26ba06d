// Agents, and the processes that run them.

import { html, useState } from '../vendor/preact.js';
import { client, may } from './account.js';
import { link, term } from './address.js';
import { useLoad } from './load.js';
import { Action, Empty, Line, Modal, Problem, Status, Time } from './parts.js';
import { number } from './words.js';

async function readAll(signal) {
  const [agents, workers] = await Promise.all([client.agents({ signal }), client.workers({ signal })]);
  return { agents, workers };
}

export function Agents() {
  const { data, error, reload } = useLoad(readAll, [], ['run.']);
  const [pausing, setPausing] = useState(null); // name
  return html`<section class="page">
    <h1>Agents</h1>
    <${Problem} error=${error} retry=${reload} />
    <div class="table" tabindex="0" role="region" aria-label="Agents"><table>
      <thead><tr><th>Agent</th><th>State</th><th><span class="unseen">Actions</span></th><th>Running</th><th>Queued</th><th>Waiting</th><th>Workers</th><th>Retries</th></tr></thead>
      <tbody>${data?.agents.map((agent) => html`<tr key=${agent.name}>
        <th scope="row"><a href=${link('runs', '', { q: term('agent', agent.name) })}><${Line} text=${agent.name} /></a> <span class="hint">${agent.kind ?? ''}</span></th>
        <td>${agent.paused ? html`<${Status} of="paused" /> <span class="hint">by <${Line} text=${agent.paused.by} />, <${Time} at=${agent.paused.at} />${agent.paused.probe && html`, one run probes it <${Time} at=${agent.paused.probe} />`} <${Line} text=${agent.paused.reason} /></span>` : html`<${Status} of=${agent.available ? 'available' : 'unavailable'} /> <span class="hint"><${Line} text=${agent.reason ?? ''} /></span>`}</td>
        <td>${may('admin') && (agent.paused ? html`<${Action} label=${`Resume ${agent.name}`} run=${async () => { await client.resumeAgent(agent.name); await reload(); }}>Resume<//>` : html`<button type="button" class="quiet" aria-label=${`Pause ${agent.name}`} onClick=${() => setPausing(agent.name)}>Pause…</button>`)}</td>
        <td>${number(agent.running)}</td><td>${number(agent.queued)}</td><td>${number(agent.waiting)}</td><td>${number(agent.workers)}</td><td class="hint">${retries(agent.retry)}</td>
      </tr>`)}</tbody>
    </table></div>
    <h2>Workers</h2>
    ${data?.workers.length === 0 && html`<${Empty} title="No workers">A token sees the workers of its own name; an admin sees all.<//>`}
    ${data?.workers.length > 0 && html`<div class="table" tabindex="0" role="region" aria-label="Workers"><table>
      <thead><tr><th>Worker</th><th>Host</th><th>Running</th><th>Lease until</th><th>Version</th><th>Agents</th></tr></thead>
      <tbody>${data.workers.map((worker) => html`<tr key=${worker.id}><th scope="row" class="mono"><${Line} text=${worker.id} /></th><td><${Line} text=${worker.host} /> ${worker.pid}</td><td>${number(worker.running)}</td><td><${Time} at=${worker.lease_until} /></td><td><${Line} text=${worker.version} /></td><td><${Line} text=${worker.agents.join(' ')} /></td></tr>`)}</tbody>
    </table></div>`}
    ${pausing && html`<${Pause} name=${pausing} close=${() => { setPausing(null); reload(); }} />`}
  </section>`;
}

// retries describes how the runs of an agent are retried. It returns an empty text if an older server does not say.
function retries(retry) {
  if (!retry) return '';
  const exits = (of, list) => (list.length > 0 ? [`${of}: exit ${list.join(' ')}`] : []);
  return [`${retry.attempts} attempts`, `${retry.first} to ${retry.most}`, `${retry.max_crashes} crashes`,
    ...exits('permanent', retry.permanent_exits), ...exits('unavailable', retry.unavailable_exits)].join(', ');
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
