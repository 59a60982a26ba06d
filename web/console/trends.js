// Charts of the runs that ended.

import { html } from '../vendor/preact.js';
import { client } from './account.js';
import { address, go } from './address.js';
import { Chart } from './chart.js';
import { useLoad, useNow } from './load.js';
import { Line, Problem } from './parts.js';
import { bars, mostWithin, RANGES, request, total } from './series.js';
import { duration, number } from './words.js';

const compact = new Intl.NumberFormat(undefined, { notation: 'compact', maximumFractionDigits: 1 });
const dollars = new Intl.NumberFormat(undefined, { style: 'currency', currency: 'USD', maximumSignificantDigits: 3 });

const percent = new Intl.NumberFormat(undefined, { style: 'percent', maximumSignificantDigits: 2 });

const RENEW = 20; // seconds between requests; one for each run that ends would make the server read much

/**
 * The runs that ended: how many, how they ended, how long they waited, and what they used. With of, those of one agent,
 * on its page; otherwise one of agents can be chosen.
 */
export function Trends({ agents = [], of = '' }) {
  const { range: asked, agent = of } = address.value.params;
  const range = RANGES[asked] ? asked : 'day';
  const turn = Math.floor(useNow(RENEW) / 1000 / RENEW);
  const { data, error, reload } = useLoad(async (signal) => ({
    range, series: await client.series({ ...request(range, Date.now()), agent: agent || undefined, signal }),
  }), [range, agent, turn], []);
  const choose = (params) => go(of ? 'agent' : 'overview', of, { ...address.value.params, ...params }, { replace: true });
  return html`<div class="tools">
      <h2>Runs that ended</h2><span class="gap"></span>
      <span class="quick" role="group" aria-label="Range">${Object.entries(RANGES).map(([name, { name: text }]) => html`<button key=${name} type="button" class="chip" aria-pressed=${String(name === range)} onClick=${() => choose({ range: name })}>${text}</button>`)}</span>
      ${!of && html`<select aria-label="Agent" value=${agent} onChange=${(event) => choose({ agent: event.target.value })}>
        <option value="">All agents</option>
        ${[...new Set([...agents.map(({ name }) => name), ...(agent ? [agent] : [])])].map((name) => html`<option key=${name} value=${name}><${Line} text=${name} /></option>`)}
      </select>`}
    </div>
    <${Problem} error=${error} retry=${reload} />
    ${data && html`<${Charts} ...${data} />`}`;
}

/** Which part of a whole a number is, if that says more than the number. */
const part = (n, of) => (n > 0 && n < of ? ` (${percent.format(n / of)})` : '');

function Charts({ range, series }) {
  const list = bars(series, RANGES[range].bar);
  if (list.length === 0) return html`<p class="hint">These times are no longer kept.</p>`;
  const sums = total(list);
  const x = { times: list.map(({ at }) => at), length: RANGES[range].bar };
  const column = (name) => list.map((bar) => bar[name]);
  const bounds = series.start_delay_bounds_ms;
  const within = mostWithin(sums, bounds);
  const ended = sums.completed + sums.failed + sums.cancelled;
  const delay = (ms) => duration(ms) || '0ms';
  return html`<div class="charts">
    <${Chart} title="Ended" ...${x} format=${number}
      summary=${`${number(ended)} ended, ${number(sums.failed)} failed${part(sums.failed, ended)}, ${number(sums.cancelled)} cancelled`}
      series=${[
        { name: 'Completed', color: '--good', values: column('completed') },
        { name: 'Failed', color: '--bad', values: column('failed') },
        { name: 'Cancelled', color: '--soft', values: column('cancelled') },
      ]} />
    <${Chart} title="Start delay" ...${x} format=${delay} kind="lines" log=${true}
      summary=${sums.started === 0 ? 'none started' : `${delay(sums.start_delay_ms / sums.started)} on average, 9 of 10 within ${within === Infinity ? `more than ${delay(bounds.at(-1))}` : delay(within)}`}
      series=${[
        { name: 'Average', color: '--accent', values: list.map((bar) => (bar.started > 0 ? Math.max(1, bar.start_delay_ms / bar.started) : null)) },
        { name: '9 of 10 within', color: '--warn', values: list.map((bar) => { const of = mostWithin(bar, bounds); return of === null ? null : Math.min(of, bounds.at(-1)); }) },
      ]} />
    <${Chart} title="Tokens" ...${x} format=${(n) => compact.format(n)}
      summary=${`${compact.format(sums.input_tokens)} in, ${compact.format(sums.output_tokens)} out`}
      series=${[
        { name: 'Output', color: '--accent', values: column('output_tokens') },
        { name: 'Input', color: '--soft', values: column('input_tokens') },
      ]} />
    <${Chart} title="Cost" ...${x} format=${(n) => dollars.format(n)} summary=${`${dollars.format(sums.cost_usd)}, as the agents report it`}
      series=${[{ name: 'Cost', color: '--accent', values: column('cost_usd') }]} />
  </div>`;
}
