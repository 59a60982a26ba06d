// Agents, and the processes that run them.

import { html } from '../vendor/preact.js';
import { client, may } from './account.js';
import { address, go, link, term } from './address.js';
import { Pausing, State, Workers } from './agent.js';
import { Measure, MEASURES, useSums } from './compare.js';
import { useLoad } from './load.js';
import { Empty, Line, Problem, Time } from './parts.js';
import { RANGES } from './series.js';
import { number } from './words.js';

async function readAll(signal) {
  const [agents, workers] = await Promise.all([client.agents({ signal }), client.workers({ signal })]);
  return { agents, workers };
}

/** Agents that the server has for itself, by the beginning of their names. */
const internal = ({ name }) => /^(channel|alert|out|project|issue|schedule):/.test(name);

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
 * The columns of how its runs ended.
 * @type {[string, string][]}
 */
const ENDED = [...Object.entries(MEASURES).map(([name, { title }]) => /** @type {[string, string]} */ ([name, title])), ['last', 'Last ended']];

/** The ranges of these columns: what the server adds up of many agents. */
const SPANS = ['day', 'week', 'month'];

/**
 * Returns the agents in the order of a column, then by name. Agents without a value are last.
 * @param {any[]} agents
 */
function sorted(agents, column, ended = new Map()) {
  const byName = (a, b) => a.name.localeCompare(b.name, undefined, { numeric: true });
  const value = (agent) => {
    if (column === 'name') return 0;
    const item = ended.get(agent.name);
    if (column === 'last') return item?.last_at ? Date.parse(item.last_at) : -1;
    return MEASURES[column] ? (item && MEASURES[column].of(item)) ?? -1 : agent[column];
  };
  return [...agents].sort((a, b) => value(b) - value(a) || byName(a, b));
}

export function Agents({ params }) {
  const { data, error, reload } = useLoad(readAll, [], ['run.']);
  const show = Object.hasOwn(SHOW, params.show) ? params.show : '';
  const range = SPANS.includes(params.range) ? params.range : 'day';
  const sums = useSums(range, may('metrics'));
  const ended = sums.data && new Map(sums.data.items.map((item) => [item.name, item]));
  const sort = [...COLUMNS, ...(may('metrics') ? ENDED : [])].some(([name]) => name === params.sort) ? params.sort : 'name';
  const words = (params.q ?? '').toLowerCase().split(' ').filter(Boolean);
  const choose = (more) => go('agents', '', { ...address.value.params, ...more }, { replace: true });
  const own = data?.agents.filter((agent) => !internal(agent)) ?? [];
  const named = own.filter(({ name, kind }) => words.every((word) => `${name} ${kind ?? ''}`.toLowerCase().includes(word)));
  const shown = sorted(named.filter(SHOW[show].of), sort, ended ?? undefined);
  const others = data?.agents.filter(internal) ?? [];
  return html`<section class="page">
    <h1>Agents</h1>
    <${Problem} error=${error ?? sums.error} retry=${error ? reload : sums.reload} />
    <div class="filter" role="search"><input type="search" aria-label="Filter agents" placeholder="Part of a name or kind" value=${params.q ?? ''} maxlength="200" spellcheck="false" autocapitalize="none" autocomplete="off" onInput=${(event) => choose({ q: event.target.value })} /></div>
    <div class="tools">
      <span class="quick" role="group" aria-label="Common filters">${Object.entries(SHOW).map(([name, { title, of }]) => html`<button key=${name} type="button" class="chip" aria-pressed=${String(name === show)} onClick=${() => choose({ show: name })}>${title} <span class="count">${number(named.filter(of).length)}</span></button>`)}</span>
      <span class="gap"></span>
      <select class="narrow" aria-label="Sort by" value=${sort} onChange=${(event) => choose({ sort: event.target.value })}>${[...COLUMNS, ...(may('metrics') ? ENDED : [])].map(([name, title]) => html`<option key=${name} value=${name}>By ${title.toLowerCase()}</option>`)}</select>
      ${may('metrics') && html`<select aria-label="Runs that ended" value=${range} onChange=${(event) => choose({ range: event.target.value })}>${SPANS.map((name) => html`<option key=${name} value=${name}>Ended in a ${RANGES[name].name.toLowerCase().replace('30 days', 'month')}</option>`)}</select>`}
      <span class="count" aria-live="polite">${data && (shown.length === own.length ? agentsOf(own.length) : `${number(shown.length)} of ${agentsOf(own.length)}`)}</span>
    </div>
    ${data && shown.length === 0 && (own.length === 0 ? html`<${Empty} title="No agents">An agent is a part of the server's configuration, or a worker that serves it.<//>` : html`<${Empty} title="No agents match">Change the filter, or <a href=${link('agents')}>show all agents</a>.<//>`)}
    ${shown.length > 0 && html`<${Table} label="Agents" agents=${shown} ended=${ended} sort=${sort} choose=${choose} reload=${reload} />`}
    ${others.length > 0 && html`<details class="internal"><summary>${number(others.length)} internal ${others.length === 1 ? 'agent delivers' : 'agents deliver'} for the server</summary>
      <${Table} label="Internal agents" agents=${sorted(others, 'name')} reload=${reload} />
    </details>`}
    <h2>Workers</h2>
    ${data?.workers.length === 0 && html`<${Empty} title="No workers">A token sees the workers of its own name; an admin sees all.<//>`}
    ${data?.workers.length > 0 && html`<${Workers} workers=${data.workers} />`}
  </section>`;
}

const agentsOf = (n) => (n === 1 ? '1 agent' : `${number(n)} agents`);

function Table({ label, agents, ended = null, sort = '', choose = null, reload }) {
  const head = ([name, title]) => html`<th key=${name} scope="col" class="number" data-column=${name} data-sorted=${name === sort ? '' : undefined} aria-sort=${name === sort ? (name === 'name' ? 'ascending' : 'descending') : undefined}>${choose ? html`<button type="button" class="sort" onClick=${() => choose({ sort: name === 'name' ? '' : name })}>${title}</button>` : title}</th>`;
  const [first, ...numbers] = COLUMNS;
  const runs = (agent, status) => (agent[status] === 0 ? '0' : html`<a href=${link('runs', '', { q: `${term('agent', agent.name)} status:${status}` })}>${number(agent[status])}</a>`);
  return html`<div class="table agents" tabindex="0" role="region" aria-label=${label}><table>
    <thead><tr>${head(first)}<th scope="col">State</th><th scope="col" data-column="actions"><span class="unseen">Actions</span></th>${numbers.map(head)}${ended && ENDED.map(head)}</tr></thead>
    <tbody>${agents.map((agent) => html`<tr key=${agent.name}>
      <th scope="row"><a href=${link('agent', agent.name)}><${Line} text=${agent.name} /></a> <span class="hint">${agent.kind ?? ''}</span></th>
      <td><${State} agent=${agent} /></td>
      <td data-column="actions">${may('admin') && html`<${Pausing} agent=${agent} done=${reload} />`}</td>
      ${['running', 'queued', 'waiting'].map((name) => html`<td key=${name} class="number" data-column=${name} data-sorted=${name === sort ? '' : undefined}>${runs(agent, name)}</td>`)}
      <td class="number" data-column="workers" data-sorted=${sort === 'workers' ? '' : undefined}>${number(agent.workers)}</td>
      ${ended && Object.keys(MEASURES).map((name) => html`<${Measure} key=${name} item=${ended.get(agent.name)} name=${name} sorted=${name === sort} />`)}
      ${ended && html`<td class="number" data-column="last" data-sorted=${sort === 'last' ? '' : undefined}><${Time} at=${ended.get(agent.name)?.last_at} /></td>`}
    </tr>`)}</tbody>
  </table></div>`;
}
