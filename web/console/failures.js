// Failed runs by error.

import { html, useState } from '../vendor/preact.js';
import { client, may } from './account.js';
import { link, term } from './address.js';
import { Bulk } from './bulk.js';
import { useLoad } from './load.js';
import { Empty, Line, Problem, Time } from './parts.js';
import { Filter } from './runs.js';
import { cause, number, whole } from './words.js';

export function Failures({ params }) {
  const q = params.q ?? '';
  const { data, error, reload } = useLoad((signal) => client.failures({ q, limit: 200, signal }), [q], ['run.failed', 'run.retried']);
  const [bulk, setBulk] = useState(null); // filter of the runs to retry
  const groups = [...(data?.items ?? [])].sort((a, b) => b.runs - a.runs);
  const of = (group) => `status:failed ${term('group', group)} ${q}`.trim();
  return html`<section class="page">
    <h1>Failures</h1>
    <${Filter} q=${q} page="failures" label="Filter failed runs" hint="agent:coder created:>2026-11-01" />
    <${Problem} error=${error} retry=${reload} />
    ${data?.items.length === 0 && html`<${Empty} title=${q ? 'No failed runs match' : 'No failed runs'}>Runs that failed for good appear here, grouped by their error.<//>`}
    ${groups.length > 0 && html`<p class="count">${number(groups.reduce((sum, { runs }) => sum + runs, 0))} failed runs in ${number(groups.length)} ${groups.length === 1 ? 'group' : 'groups'}, the largest first</p>`}
    <ol class="groups">${groups.map((g) => html`<li class="card" key=${g.group}>
      <p class="many"><span class="number">${number(g.runs)}</span> ${g.runs === 1 ? 'run' : 'runs'}</p>
      <p class="lead"><${Line} text=${g.message || 'The error of these runs is gone.'} /></p>
      <p class="meta"><span>${cause(g.class)}</span> <span><${Line} text=${g.agents.join(', ')} /></span> <span>first <${Time} at=${g.first_at} /></span> <span>last <${Time} at=${g.last_at} /></span></p>
      <p class="tools">
        ${g.runs > 1 && html`<a class="button quiet" href=${link('runs', '', { q: of(g.group) })}>Show ${number(g.runs)} runs</a>`}
        <a class="button quiet" href=${link('run', g.run)}>${g.runs > 1 ? 'Latest run' : 'Show the run'}</a>
        ${may('submit') && html`<button type="button" class="quiet" onClick=${() => setBulk(of(g.group))}>Retry…</button>`}
      </p>
    </li>`)}</ol>
    ${data?.looked_to && html`<p class="hint">Older failures, before about ${whole(data.looked_to)}, are not counted.</p>`}
    ${bulk && html`<${Bulk} kind="retry" q=${bulk} close=${() => { setBulk(null); reload(); }} />`}
  </section>`;
}
