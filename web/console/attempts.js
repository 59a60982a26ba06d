// Two attempts of a run beside each other.

import { html, useState } from '../vendor/preact.js';
import { spanWord, stateWords } from './kinds.js';
import { Detail, Line } from './parts.js';
import { compare, spansOf } from './spans.js';
import { duration, number } from './words.js';

const SHOWN = 200; // rows

/** A choice of two attempts, and what differs in them. */
export function Attempts({ logs }) {
  const { run, entries, gap, children } = logs.root;
  const [pair, setPair] = useState(null);
  const [most, setMost] = useState(SHOWN);
  const attempts = spansOf(run, entries, { now: Date.now(), gap, children }).spans.filter(({ kind }) => kind === 'attempt');
  if (attempts.length < 2) return null;
  const of = (n) => attempts.find(({ attempt }) => attempt === n);
  const chosen = pair && pair.map((n, i) => of(n) ?? attempts.at(i - 2));
  const rows = chosen ? compare(chosen[0], chosen[1]) : [];
  const choose = (i, value) => setPair(pair.map((n, j) => (i === j ? Number(value) : n)));
  return html`<section class="attempts" aria-label="Two attempts">
    <p class="tools"><button type="button" class="quiet" aria-pressed=${String(Boolean(pair))} onClick=${() => setPair(pair ? null : attempts.slice(-2).map(({ attempt }) => attempt))}>Compare two attempts</button>
      ${chosen && chosen.map((one, i) => html`<select key=${i} aria-label=${`Attempt in column ${i + 1}`} value=${one.attempt} onChange=${(event) => choose(i, event.target.value)}>${attempts.map(({ attempt }) => html`<option key=${attempt} value=${attempt} selected=${attempt === one.attempt}>Attempt ${attempt}</option>`)}</select>`)}</p>
    ${chosen && html`<div class="columns">${chosen.map((one, i) => html`<${Summary} key=${i} of=${one} />`)}</div>
      <div class="table" tabindex="0" role="region" aria-label="Steps and tools of two attempts"><table class="pair">
        <thead><tr><th>Step, tool or effect</th>${chosen.map((one, i) => html`<th key=${i}>Attempt ${one.attempt}</th>`)}<th>Difference</th></tr></thead>
        <tbody>${rows.slice(0, most).map((row, i) => html`<tr key=${i} data-only=${row.a ? (row.b ? null : 'a') : 'b'}><th scope="row"><span class="word">${spanWord(row.kind)}</span> <${Line} text=${row.name} /></th><${Cell} of=${row.a} /><${Cell} of=${row.b} /><td class="soft">${difference(row)}</td></tr>`)}
          ${rows.length === 0 && html`<tr><td colspan="4">Neither attempt has steps, tools or effects in the log.</td></tr>`}</tbody>
      </table></div>
      ${rows.length > most && html`<p><button type="button" class="quiet" onClick=${() => setMost(most + SHOWN)}>Show more of ${number(rows.length)}</button></p>`}`}
  </section>`;
}

function Cell({ of }) {
  if (!of) return html`<td class="soft">–</td>`;
  const points = of.to === of.from;
  return html`<td data-state=${of.state}>${points ? '' : `${of.end === 'log' || of.end === 'now' ? '' : '≤ '}${duration(of.to - of.from)} `}<span class="state">${stateWords(of.state)}</span>${errorOf(of) && html`<br /><span class="hint"><${Line} text=${errorOf(of)} /></span>`}</td>`;
}

// errorOf returns why a span failed, '' if it did not.
function errorOf({ state, detail }) {
  if (state !== 'failed') return '';
  const found = detail.find(([name]) => name === 'Error') ?? detail.find(([name]) => name === 'Summary');
  return typeof found?.[1] === 'string' ? found[1].slice(0, 300) : '';
}

function difference({ a, b }) {
  if (!a) return 'only in the second';
  if (!b) return ['effect', 'memo'].includes(a.kind) && a.state === 'done' ? 'recorded: not called again' : 'only in the first';
  const by = (b.to - b.from) - (a.to - a.from);
  const state = a.state === b.state ? '' : `${stateWords(a.state)} → ${stateWords(b.state)}`;
  if (by === 0) return state || 'the same';
  return `${by > 0 ? '+' : '−'}${duration(Math.abs(by))}${state && `, ${state}`}`;
}

function Summary({ of }) {
  const count = (one, many, ...kinds) => {
    const n = of.children.filter(({ kind }) => kinds.includes(kind)).length;
    return `${number(n)} ${n === 1 ? one : many}`;
  };
  const failed = of.children.filter(({ state }) => state === 'failed').length;
  return html`<div class="card"><p class="meta"><strong>Attempt ${of.attempt}</strong> <span>${stateWords(of.state)}</span> <span>${of.end === 'log' || of.end === 'now' ? '' : 'at most '}${duration(of.to - of.from)}</span></p>
    <dl>
      <${Detail} name="In it">${count('step', 'steps', 'step')}, ${count('tool', 'tools', 'tool')}, ${count('effect or memo', 'effects and memos', 'effect', 'memo')}, ${number(failed)} failed<//>
      ${of.detail.filter(([name]) => name !== 'Worker').map(([name, value], i) => html`<${Detail} key=${i} name=${name}><${Line} text=${value} /><//>`)}
    </dl></div>`;
}
