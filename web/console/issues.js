// The issues of the tracker, as a board.

import { html, signal } from '../vendor/preact.js';
import { client, may } from './account.js';
import { useLoad, useNow } from './load.js';
import { Empty, Line, Problem, ThreadLink, Time } from './parts.js';
import { number } from './words.js';

/** Whether the server has a tracker, once it was asked. */
export const tracked = signal(false);

/** Asks whether the server has a tracker. A server that does not answer may have one. */
export async function findTracker() {
  tracked.value = may('admin') && await client.issues().then(() => true, (error) => error.code !== 'not_found');
}

const NAMES = { in_progress: 'In progress', ready: 'Ready', blocked: 'Blocked', later: 'Later', closed: 'Closed' };

const RENEW = 15; // seconds: the tracker is a file, which has no events

export function Issues() {
  const turn = Math.floor(useNow(RENEW) / 1000 / RENEW);
  const { data, error, reload } = useLoad((signal) => client.issues({ signal }), [turn], ['run.']);
  const none = error?.code === 'not_found';
  return html`<section class="page">
    <h1>Issues</h1>
    ${none ? html`<${Empty} title="No tracker">A server with <code>[tracker]</code> in its configuration gives the ready issues of a project to its agents.<//>` : html`<${Problem} error=${error} retry=${reload} />`}
    ${data && html`<div class="board">${data.columns.map(({ name, count, items }) => html`<section key=${name} aria-label=${NAMES[name] ?? name}>
      <h2>${NAMES[name] ?? name} <span class="count">${number(count)}</span></h2>
      <ul>${items.map((issue) => html`<${Card} key=${issue.id} issue=${issue} working=${name === 'in_progress'} />`)}</ul>
      ${count > items.length && html`<p class="hint">and ${number(count - items.length)} more</p>`}
    </section>`)}</div>`}
  </section>`;
}

function Card({ issue, working }) {
  return html`<li class="card" data-priority=${issue.priority}>
    <p class="meta"><span class="mono"><${Line} text=${issue.id} /></span> <span>P${issue.priority}</span> <span><${Line} text=${issue.type} /></span> <${Time} at=${issue.updated_at} /></p>
    <p><${Line} text=${issue.title} /></p>
    ${(issue.assignee || issue.labels.length > 0) && html`<p class="meta">${issue.assignee && html`<strong><${Line} text=${issue.assignee} /></strong>`} ${issue.labels.map((label) => html`<span key=${label} class="label"><${Line} text=${label} /></span>`)}</p>`}
    ${issue.blocked_by.length > 0 && html`<p class="hint">after <${Line} text=${issue.blocked_by.join(', ')} /></p>`}
    ${working && html`<p class="hint"><${ThreadLink} id=${issue.thread} /></p>`}
  </li>`;
}
