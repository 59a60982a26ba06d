// The budget of a run, and what it has lent to the runs that it sent.

import { html } from '../vendor/preact.js';
import { link, term } from './address.js';
import { amounts, some } from './amounts.js';
import { Line, RunLink, Status } from './parts.js';
import { ended } from './spans.js';

/** The budgets of a run and of its children, nothing if none has one. more: it has children that are not loaded. */
export function RunBudget({ run, children, more }) {
  const lent = children.filter(({ budget }) => budget);
  if (!run.budget && lent.length === 0) return null;
  return html`<h2>Budget</h2>
    <div class="table stacked" tabindex="0" role="region" aria-label="Budget of the run and of the runs that it sent"><table>
      <thead><tr><th>Run</th><th>Status</th><th>Limit</th><th>Spent</th><th>Lent</th><th>Left</th></tr></thead>
      <tbody>${run.budget && html`<${Row} run=${run} own />`}${lent.map((child) => html`<${Row} key=${child.id} run=${child} />`)}</tbody>
    </table></div>
    ${run.reason === 'budget' && html`<p class="hint">It was not raised: the run ended with what it had.</p>`}
    ${run.budget && run.parent && html`<p class="hint">The run that sent it, <${RunLink} id=${run.parent} />, gets back what is left.</p>`}
    ${more && html`<p><a href=${link('runs', '', { q: term('parent', run.id) })}>All runs that it sent</a></p>`}`;
}

// Row shows one budget. What an ended run has left went back to the run that lent it.
function Row({ run: { id, agent, status, budget: { limit, spent, lent, left } }, own = false }) {
  return html`<tr>
    <th scope="row">${own ? 'This run' : html`<${Line} text=${agent} /> <${RunLink} id=${id} />`}</th>
    <td data-name="Status"><${Status} of=${status} /></td>
    <td data-name="Limit">${amounts(limit, limit)}</td>
    <td data-name="Spent">${amounts(spent, limit)}</td>
    <td data-name="Lent">${some(lent) ? amounts(lent, limit) : '–'}</td>
    <td data-name="Left">${ended(status) && !own ? 'returned' : amounts(left, limit)}</td>
  </tr>`;
}
