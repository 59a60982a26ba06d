// Agents compared by how their runs ended.

import { html } from '../vendor/preact.js';
import { client } from './account.js';
import { address, go, link, term } from './address.js';
import { useLoad, useNow } from './load.js';
import { Line, Problem, Time } from './parts.js';
import { RANGES, read, sumsRequest } from './series.js';
import { dollars, duration, number, percent } from './words.js';

const RENEW = 20; // seconds between requests
const SHOWN = 8;

/**
 * What agents are compared by: the title of the column, its value of the sums of an agent, and its text. The greatest is first.
 * @type {Record<string, { title: string, of: (item: any) => number | null, text: (value: number) => string }>}
 */
export const MEASURES = {
  failing: { title: 'Failed', of: ({ sums }) => read(sums).failing, text: percent },
  cost: { title: 'Cost', of: ({ sums }) => (read(sums).ended > 0 ? sums.cost_usd : null), text: dollars },
  delay: { title: 'Start delay', of: ({ sums }) => read(sums).delay, text: (ms) => duration(ms) || '0ms' },
  ended: { title: 'Ended', of: ({ sums }) => read(sums).ended || null, text: number },
};

/** The sums of a range by agent: the answer of the server, renewed now and then. */
export function useSums(range, may) {
  const turn = Math.floor(useNow(RENEW) / 1000 / RENEW);
  return useLoad(async (signal) => (may ? client.sums({ ...sumsRequest(range, Date.now()), signal }) : null), [range, may, turn], []);
}

/** Sums in the order of a measure, then by name. */
export function ordered(items, measure) {
  const { of } = MEASURES[measure];
  return [...items].sort((a, b) => (of(b) ?? -1) - (of(a) ?? -1) || a.name.localeCompare(b.name, undefined, { numeric: true }));
}

/** The agents of which most runs failed, or that cost or lag most. */
export function Compare() {
  const { range: asked, by: wanted } = address.value.params;
  const range = RANGES[asked] ? asked : 'day';
  const by = MEASURES[wanted] ? wanted : 'failing';
  const { data, error, reload } = useSums(range, true);
  const choose = (measure) => go('overview', '', { ...address.value.params, by: measure === 'failing' ? '' : measure }, { replace: true });
  const items = data ? ordered(data.items, by).filter(({ sums }) => read(sums).ended > 0) : [];
  const others = data && read(data.others).ended > 0 ? [{ name: '', sums: data.others, last_at: null }] : [];
  const shown = items.slice(0, SHOWN);
  if (data && items.length + others.length === 0) return null;
  return html`<div class="tools"><h2>By agent</h2> ${data && html`<span class="hint">since <${Time} at=${data.from} /></span>`}<span class="gap"></span>
      <span class="quick" role="group" aria-label="Order">${Object.entries(MEASURES).map(([name, { title }]) => html`<button key=${name} type="button" class="chip" aria-pressed=${String(name === by)} onClick=${() => choose(name)}>${title}</button>`)}</span>
    </div>
    <${Problem} error=${error} retry=${reload} />
    ${data && html`<div class="table compare" tabindex="0" role="region" aria-label="Comparison"><table>
      <thead><tr><th scope="col">Agent</th>${Object.entries(MEASURES).map(([name, { title }]) => html`<th key=${name} scope="col" data-column=${name} data-sorted=${name === by ? '' : undefined} aria-sort=${name === by ? 'descending' : undefined}>${title}</th>`)}<th scope="col" data-column="last">Last ended</th></tr></thead>
      <tbody>${[...shown, ...(shown.length === items.length ? others : [])].map((item) => html`<tr key=${item.name}>
        <th scope="row">${item.name ? html`<a href=${link('agent', item.name, { range: asked })}><${Line} text=${item.name} /></a>` : html`<span class="hint">Agents that are gone, and alerts</span>`}</th>
        ${Object.keys(MEASURES).map((name) => html`<${Measure} key=${name} item=${item} name=${name} sorted=${name === by} />`)}
        <td data-column="last"><${Time} at=${item.last_at} /></td></tr>`)}</tbody>
    </table></div>
    ${items.length > SHOWN && html`<p><a href=${link('agents', '', { sort: by, range: asked })}>All ${number(items.length)} agents that ended runs</a></p>`}`}`;
}

/** The cell of a measure. The runs that failed are a link. */
export function Measure({ item, name, sorted = false }) {
  const { of, text } = MEASURES[name];
  const value = item ? of(item) : null;
  const failed = name === 'failing' && item?.name && value > 0;
  return html`<td class="number" data-column=${name} data-sorted=${sorted ? '' : undefined} data-tone=${failed ? 'bad' : undefined}>${value === null ? '–' : failed ? html`<a href=${link('failures', '', { q: term('agent', item.name) })}>${text(value)}</a>` : text(value)}</td>`;
}
