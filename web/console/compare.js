// Agents, or the values of a metadata key, compared by how their runs ended.

import { html, useState } from '../vendor/preact.js';
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

/** The sums of a range by agent, or by the value of the label: the answer of the server, renewed now and then. */
export function useSums(range, may, by = 'agent') {
  const turn = Math.floor(useNow(RENEW) / 1000 / RENEW);
  return useLoad(async (signal) => (may ? { by, ...await client.sums({ ...sumsRequest(range, Date.now(), by), by, signal }) } : null), [range, may, by, turn], []);
}

/** Sums in the order of a measure, then by name. */
export function ordered(items, measure) {
  const { of } = MEASURES[measure];
  return [...items].sort((a, b) => (of(b) ?? -1) - (of(a) ?? -1) || a.name.localeCompare(b.name, undefined, { numeric: true }));
}

/** The agents, or the values of the label, of which most runs failed, or that cost or lag most. */
export function Compare() {
  const { range: asked, by: wanted, of } = address.value.params;
  const range = RANGES[asked] ? asked : 'day';
  const by = MEASURES[wanted] ? wanted : 'failing';
  const [all, setAll] = useState(false);
  const { data, error, reload } = useSums(range, true, of === 'label' ? 'label' : 'agent');
  const choose = (params) => go('overview', '', { ...address.value.params, ...params }, { replace: true });
  const labels = data?.by === 'label';
  const items = data ? ordered(data.items, by).filter(({ sums }) => read(sums).ended > 0) : [];
  const others = data && read(data.others).ended > 0 ? [{ name: '', sums: data.others, last_at: null }] : [];
  const shown = labels && all ? items : items.slice(0, SHOWN);
  if (data && !labels && items.length + others.length === 0) return null;
  return html`<div class="tools"><h2>By ${labels ? html`<${Line} text=${data.label} />` : 'agent'}</h2> ${data && html`<span class="hint">since <${Time} at=${data.from} /></span>`}<span class="gap"></span>
      ${(data?.label || of === 'label') && html`<span class="quick" role="group" aria-label="Sums by">${[['', 'Agent'], ['label', data?.label || 'Key']].map(([name, title]) => html`<button key=${name} type="button" class="chip" aria-pressed=${String(name === (of === 'label' ? of : ''))} onClick=${() => choose({ of: name })}><${Line} text=${title} /></button>`)}</span>`}
      <span class="quick" role="group" aria-label="Order">${Object.entries(MEASURES).map(([name, { title }]) => html`<button key=${name} type="button" class="chip" aria-pressed=${String(name === by)} onClick=${() => choose({ by: name === 'failing' ? '' : name })}>${title}</button>`)}</span>
    </div>
    <${Problem} error=${error} retry=${reload} />
    ${data && html`<div class="table compare" tabindex="0" role="region" aria-label="Comparison"><table>
      <thead><tr><th scope="col">${labels ? html`<${Line} text=${data.label} />` : 'Agent'}</th>${Object.entries(MEASURES).map(([name, { title }]) => html`<th key=${name} scope="col" data-column=${name} data-sorted=${name === by ? '' : undefined} aria-sort=${name === by ? 'descending' : undefined}>${title}</th>`)}<th scope="col" data-column="last">Last ended</th></tr></thead>
      <tbody>${[...shown, ...(shown.length === items.length ? others : [])].map((item) => html`<tr key=${item.name}>
        <th scope="row">${item.name ? labels ? html`<${Line} text=${item.name} />` : html`<a href=${link('agent', item.name, { range: asked })}><${Line} text=${item.name} /></a>` : html`<span class="hint">${labels ? 'Runs without it, or beyond 500 values' : 'Agents that are gone, and alerts'}</span>`}</th>
        ${Object.keys(MEASURES).map((name) => html`<${Measure} key=${name} item=${item} name=${name} sorted=${name === by} plain=${labels} />`)}
        <td data-column="last">${labels ? item.last_at?.slice(0, 10) ?? '–' : html`<${Time} at=${item.last_at} />`}</td></tr>`)}</tbody>
    </table></div>
    ${items.length > SHOWN && (labels ? !all && html`<p><button type="button" onClick=${() => setAll(true)}>All ${number(items.length)} values</button></p>` : html`<p><a href=${link('agents', '', { sort: by, range: asked })}>All ${number(items.length)} agents that ended runs</a></p>`)}`}`;
}

/** The cell of a measure. The runs of an agent that failed are a link, unless the cell is plain. */
export function Measure({ item, name, sorted = false, plain = false }) {
  const { of, text } = MEASURES[name];
  const value = item ? of(item) : null;
  const failed = !plain && name === 'failing' && item?.name && value > 0;
  return html`<td class="number" data-column=${name} data-sorted=${sorted ? '' : undefined} data-tone=${failed ? 'bad' : undefined}>${value === null ? '–' : failed ? html`<a href=${link('failures', '', { q: term('agent', item.name) })}>${text(value)}</a>` : text(value)}</td>`;
}
