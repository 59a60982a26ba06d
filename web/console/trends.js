// Charts of the runs that ended.

import { html } from '../vendor/preact.js';
import { client } from './account.js';
import { address, go } from './address.js';
import { Chart } from './chart.js';
import { useLoad, useNow } from './load.js';
import { Line, Problem } from './parts.js';
import { bars, mostWithin, RANGES, read, request, total } from './series.js';
import { dollars, duration, number, percent } from './words.js';

const compact = new Intl.NumberFormat(undefined, { notation: 'compact', maximumFractionDigits: 1 });

const RENEW = 20; // seconds between requests; one for each run that ends would make the server read much

/**
 * The runs that ended: how many, how they ended, how long they waited, and what they used. With of, those of one agent,
 * on its page; otherwise one of agents can be chosen.
 */
export function Trends({ agents = [], of = '' }) {
  const { range: asked, agent = of } = address.value.params;
  const range = RANGES[asked] ? asked : 'day';
  const turn = Math.floor(useNow(RENEW) / 1000 / RENEW);
  const { data, error, reload } = useLoad(async (signal) => {
    const now = Date.now();
    const ask = (before) => client.series({ ...request(range, now, { before }), agent: agent || undefined, signal });
    const [series, earlier] = await Promise.all([ask(false), ask(true)]);
    return { range, series, earlier };
  }, [range, agent, turn], []);
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

/** Dollars on an axis, without digits that say nothing. */
const axis = new Intl.NumberFormat('en', { style: 'currency', currency: 'USD', minimumFractionDigits: 0, maximumSignificantDigits: 3 });
const money = (n) => axis.format(n);

/** Which part of a whole a number is, if that says more than the number. */
const part = (n, of) => (n > 0 && n < of ? ` (${percent(n / of)})` : '');

/**
 * A figure, and how it was before. format makes text of a value. good says which change is better, 1 for more and -1 for less, or neither.
 */
function Compared({ name, now, before, format, good = 0, note = '', none = '' }) {
  const same = now === null || before === null || format(now) === format(before); // what reads the same is no change
  const change = same ? 0 : Math.sign(now - before);
  const word = change === 0 ? '' : good !== 0 && change === good ? 'better' : good !== 0 ? 'worse' : '';
  const than = now === null && before !== null ? `before ${format(before)}` : change === 0 ? 'as before' : `${change > 0 ? '↑' : '↓'} from ${format(before)}`;
  return html`<li><span class="value">${now === null ? '–' : format(now)}</span><span class="name">${name}${note && `, ${note}`}</span>
    <span class="than" data-change=${word}>${before === null ? none : than}${word && html`<span class="unseen">, ${word}</span>`}</span></li>`;
}

/** Rates of a range against the range before. */
function Figures({ range, sums, series, earlier }) {
  const then = earlier.from === earlier.to ? null : read(total(bars(earlier, RANGES[range].bar)));
  const now = read(sums);
  const hours = (Date.parse(series.to) - Date.parse(series.from)) / 3_600_000;
  const rate = now.ended / hours;
  const each = range === 'hour' ? '' : rate >= 1 ? `${compact.format(rate)} an hour` : `${compact.format(rate * 24)} a day`;
  const known = (value) => then && then.ended > 0 ? value : null;
  return html`<ul class="figures compared" aria-label="Compared with the range before">
    <${Compared} name="ended" note=${now.ended > 0 ? each : ''} now=${now.ended} before=${known(then?.ended)} format=${number} none="nothing before" />
    <${Compared} name="succeeded" note="without cancelled" now=${now.success} before=${known(then?.success) ?? null} format=${percent} good=${1} />
    <${Compared} name="cost" note=${now.each > 0 ? `${dollars(now.each)} a run` : ''} now=${now.cost} before=${known(then?.cost)} format=${dollars} />
    <${Compared} name="start delay" note="on average" now=${now.delay} before=${known(then?.delay) ?? null} format=${(ms) => duration(ms) || '0ms'} good=${-1} />
  </ul>`;
}

function Charts({ range, series, earlier }) {
  const list = bars(series, RANGES[range].bar);
  if (list.length === 0) return html`<p class="hint">These times are no longer kept.</p>`;
  const sums = total(list);
  const x = { times: list.map(({ at }) => at), length: RANGES[range].bar };
  const column = (name) => list.map((bar) => bar[name]);
  const bounds = series.start_delay_bounds_ms;
  const within = mostWithin(sums, bounds);
  const ended = sums.completed + sums.failed + sums.cancelled;
  const delay = (ms) => duration(ms) || '0ms';
  return html`<${Figures} range=${range} sums=${sums} series=${series} earlier=${earlier} />
  <div class="charts">
    <${Chart} title="Ended" ...${x} format=${number} tick=${(n) => compact.format(n)} whole=${true}
      summary=${`${number(ended)} ended, ${number(sums.failed)} failed${part(sums.failed, ended)}, ${number(sums.cancelled)} cancelled`}
      series=${[
        { name: 'Completed', color: '--good', all: number(sums.completed), values: column('completed') },
        { name: 'Failed', color: '--bad', all: number(sums.failed), values: column('failed') },
        { name: 'Cancelled', color: '--soft', all: number(sums.cancelled), values: column('cancelled') },
      ]} />
    <${Chart} title="Start delay" ...${x} format=${delay} kind="lines" log=${true}
      summary=${sums.started === 0 ? 'none started' : `${delay(sums.start_delay_ms / sums.started)} on average, 9 of 10 within ${within === Infinity ? `more than ${delay(bounds.at(-1))}` : delay(within)}`}
      series=${[
        { name: 'Average', color: '--accent', all: sums.started > 0 ? delay(sums.start_delay_ms / sums.started) : 'none', values: list.map((bar) => (bar.started > 0 ? Math.max(1, bar.start_delay_ms / bar.started) : null)) },
        { name: '9 of 10 within', color: '--warn', all: within === null ? 'none' : within === Infinity ? `over ${delay(bounds.at(-1))}` : delay(within), values: list.map((bar) => { const of = mostWithin(bar, bounds); return of === null ? null : Math.min(of, bounds.at(-1)); }) },
      ]} />
    ${sums.input_tokens + sums.output_tokens > 0 && html`<${Chart} title="Tokens" ...${x} whole=${true} format=${(n) => compact.format(n)}
      summary=${`${compact.format(sums.input_tokens)} in, ${compact.format(sums.output_tokens)} out`}
      series=${[
        { name: 'Output', color: '--accent', all: compact.format(sums.output_tokens), values: column('output_tokens') },
        { name: 'Input', color: '--soft', all: compact.format(sums.input_tokens), values: column('input_tokens') },
      ]} />`}
    ${sums.cost_usd > 0 && html`<${Chart} title="Cost" ...${x} format=${money} summary=${`${dollars(sums.cost_usd)}, as the agents report it or as computed from prices of models`}
      series=${[{ name: 'Cost', color: '--accent', all: dollars(sums.cost_usd), values: column('cost_usd') }]} />`}
  </div>
  ${ended > 0 && sums.input_tokens + sums.output_tokens + sums.cost_usd === 0 && html`<p class="hint">No run of this range reported tokens or cost.</p>`}`;
}
