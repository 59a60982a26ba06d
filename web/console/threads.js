// Threads, with links to their conversations.

import { html } from '../vendor/preact.js';
import { client } from './account.js';
import { link, term } from './address.js';
import { Cell, Rows, usePages } from './list.js';
import { Empty, Line, Status, ThreadLink, Time } from './parts.js';
import { Filter } from './runs.js';
import { number } from './words.js';

export function Threads({ params }) {
  const q = params.q ?? '';
  const list = usePages((page) => client.threads({ q, ...page }), [q], ['run.', 'message']);
  return html`<section class="page fill">
    <h1>Threads</h1>
    <${Filter} q=${q} page="threads" label="Filter threads" hint="id:support-* agent:coder status:waiting" />
    <${Rows} list=${list} label="Threads" head=${['Status', 'Thread', 'Agent', 'Owner', 'Queued', 'Updated']} row=${row}>
      <${Empty} title=${q ? 'No threads match' : 'No threads yet'}>Start one in the <a href="chat">chat</a> or with <code>mailroom send</code>. Messages are found on the page <a href="#/search">Search</a>.<//>
    <//>
  </section>`;
}

const row = (thread) => html`<${Cell} kind="state"><${Status} of=${thread.status === 'idle' ? 'completed' : thread.status} text=${thread.status} /><//>
  <${Cell} kind="main"><${ThreadLink} id=${thread.id} /> <a class="small" href=${link('runs', '', { q: term('thread', thread.id) })}>runs</a><//>
  <${Cell} kind="agent"><${Line} text=${thread.agent} /><//>
  <${Cell} kind="owner"><${Line} text=${thread.owner} /><//>
  <${Cell} kind="took">${thread.queued > 0 ? number(thread.queued) : ''}<//>
  <${Cell} kind="time"><${Time} at=${thread.updated_at} /><//>`;
