// Why queued runs do not run.

import { html } from '../vendor/preact.js';
import { link } from './address.js';
import { Line, Time } from './parts.js';
import { number } from './words.js';

/** What waits for what, the cause of the most runs first. */
export function Waits({ waits, queued }) {
  if (waits.runs === 0) return null;
  return html`<h2>Why ${number(queued)} queued ${queued === 1 ? 'run does' : 'runs do'} not run</h2>
    ${waits.looked_to && html`<p class="hint">${number(waits.runs)} of them were looked at.</p>`}
    <ol class="plain waits">${waits.items.slice(0, 10).map((group) => html`<li key=${`${group.cause} ${group.agent} ${group.run}`}>
      <strong>${number(group.runs)}</strong> ${group.runs === 1 ? 'waits' : 'wait'}${group.runs !== group.behind && html` behind ${number(group.behind)} ${group.behind === 1 ? 'run' : 'runs'}`} for <a href=${CAUSES[group.cause]?.(group) ?? link('run', group.run)}><${Line} text=${group.text} /></a> <span class="note">since <${Time} at=${group.since} /></span></li>`)}</ol>`;
}

// CAUSES has the page on which a person can end a cause. Other causes link to the page of a run that waits.
const agent = (group) => (group.agent ? link('agent', group.agent) : link('agents'));
const CAUSES = { decision: ({ behind, run }) => (behind > 1 ? link('inbox') : link('run', run)), pause: agent, budget: () => link('budgets', '', { show: 'spent' }), worker: agent, server: () => link('agents') };
