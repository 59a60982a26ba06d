// Agents, and the processes that run them.

import { html } from '../vendor/preact.js';
import { client, may } from './account.js';
import { address, go, link, term } from './address.js';
import { Pausing, State, Workers } from './agent.js';
import { useLoad } from './load.js';
import { Empty, Line, Problem } from './parts.js';
import { number } from './words.js';

async function readAll(signal) {
  const [agents, workers] = await Promise.all([client.agents({ signal }), client.workers({ signal })]);
  return { agents, workers };
}

/** Agents that the server has for itself, by the beginning of their names. */
const internal = ({ name }) => /^(channel|alert|out|project|issue):/.test(name);

/** @type {Record<string, { title: string, of: (agent: any) => boolean }>} */
const SHOW = {
  '': { title: 'All', of: () => true },
  trouble: { title: 'In trouble', of: ({ paused, available, queued }) => Boolean(paused) || (!available && queued > 0) },
  busy: { title: 'Busy', of: ({ running, queued, waiting }) => running + queued + waiting > 0 },
  gone: { title: 'Unavailable', of: ({ available }) => !available },
};

/**
 * The columns that the list can be sorted by; numbers begin with the greatest.
 * @type {[string, string][]}
 */
const COLUMNS = [
  ['name', 'Agent'], ['running', 'Running'], ['queued', 'Queued'], ['waiting', 'Waiting'], ['workers', 'Workers'],
];

/**
 * Returns the agents in the order of a column, then by name.
 * @param {any[]} agents
 */
function sorted(agents, column) {
  const byName = (a, b) => a.name.localeCompare(b.name, undefined, { numeric: true });
  return [...agents].sort((a, b) => (column === 'name' ? 0 : b[column] - a[column]) || byName(a, b));
}

export function Agents({ params }) {
  const { data, error, reload } = useLoad(readAll, [], ['run.']);
  const show = SHOW[params.show] ? params.show : '';
  const sort = COLUMNS.some(([name]) => name === params.sort) ? params.sort : 'name';
  const words = (params.q ?? '').toLowerCase().split(' ').filter(Boolean);
  const choose = (more) => go('agents', '', { ...address.value.params, ...more }, { replace: true });
  const own = data?.agents.filter((agent) => !internal(agent)) ?? [];
  const named = own.filter(({ name, kind }) => words.every((word) => `${name} ${kind ?? ''}`.toLowerCase().includes(word)));
  const shown = sorted(named.filter(SHOW[show].of), sort);
  const others = data?.agents.filter(internal) ?? [];
  return html`<section class="page">
    <h1>Agents</h1>
    <${Problem} error=${error} retry=${reload} />
    <div class="filter" role="search"><input type="search" aria-label="Filter agents" placeholder="Part of a name or kind" value=${params.q ?? ''} maxlength="200" spellcheck="false" autocapitalize="none" autocomplete="off" onInput=${(event) => choose({ q: event.target.value })} /></div>
    <div class="tools">
      <span class="quick" role="group" aria-label="Common filters">${Object.entries(SHOW).map(([name, { title, of }]) => html`<button key=${name} type="button" class="chip" aria-pressed=${String(name === show)} onClick=${() => choose({ show: name })}>${title} <span class="count">${number(named.filter(of).length)}</span></button>`)}</span>
      <span class="gap"></span>
      <span class="count" aria-live="polite">${data && (shown.length === own.length ? agentsOf(own.length) : `${number(shown.length)} of ${agentsOf(own.length)}`)}</span>
    </div>
    ${data && shown.length === 0 && (own.length === 0 ? html`<${Empty} title="No agents">An agent is a part of the server's configuration, or a worker that serves it.<//>` : html`<${Empty} title="No agents match">Change the filter, or <a href=${link('agents')}>show all agents</a>.<//>`)}
    ${shown.length > 0 && html`<${Table} label="Agents" agents=${shown} sort=${sort} choose=${choose} reload=${reload} />`}
    ${others.length > 0 && html`<details class="internal"><summary>${number(others.length)} internal ${others.length === 1 ? 'agent delivers' : 'agents deliver'} for the server</summary>
      <${Table} label="Internal agents" agents=${sorted(others, 'name')} reload=${reload} />
    </details>`}
    <h2>Workers</h2>
    ${data?.workers.length === 0 && html`<${Empty} title="No workers">A token sees the workers of its own name; an admin sees all.<//>`}
    ${data?.workers.length > 0 && html`<${Workers} workers=${data.workers} />`}
  </section>`;
}

const agentsOf = (n) => (n === 1 ? '1 agent' : `${number(n)} agents`);

function Table({ label, agents, sort = '', choose = null, reload }) {
  const head = ([name, title]) => html`<th key=${name} scope="col" aria-sort=${name === sort ? (name === 'name' ? 'ascending' : 'descending') : undefined}>${choose ? html`<button type="button" class="sort" onClick=${() => choose({ sort: name === 'name' ? '' : name })}>${title}</button>` : title}</th>`;
  const [first, ...numbers] = COLUMNS;
  const runs = (agent, status) => (agent[status] === 0 ? '0' : html`<a href=${link('runs', '', { q: `${term('agent', agent.name)} status:${status}` })}>${number(agent[status])}</a>`);
  return html`<div class="table agents" tabindex="0" role="region" aria-label=${label}><table>
    <thead><tr>${head(first)}<th scope="col">State</th><th scope="col"><span class="unseen">Actions</span></th>${numbers.map(head)}</tr></thead>
    <tbody>${agents.map((agent) => html`<tr key=${agent.name}>
      <th scope="row"><a href=${link('agent', agent.name)}><${Line} text=${agent.name} /></a> <span class="hint">${agent.kind ?? ''}</span></th>
      <td><${State} agent=${agent} /></td>
      <td>${may('admin') && html`<${Pausing} agent=${agent} done=${reload} />`}</td>
      <td>${runs(agent, 'running')}</td><td>${runs(agent, 'queued')}</td><td>${runs(agent, 'waiting')}</td><td>${number(agent.workers)}</td>
    </tr>`)}</tbody>
  </table></div>`;
}
