// Threads, with links to their conversations.

import { html } from '../vendor/preact.js';
import { client } from './account.js';
import { link, term } from './address.js';
import { Columns, useColumns } from './columns.js';
import { isEmpty, usePages } from './list.js';
import { Empty, Line, Status, Time } from './parts.js';
import { Rows } from './rows.js';
import { Filter } from './runs.js';
import { number } from './words.js';

const COLUMNS = [
  { id: 'agent', name: 'Agent', from: 0, track: 'minmax(4rem, 9rem)', cell: (thread) => html`<${Line} text=${thread.agent} />` },
  { id: 'status', name: 'Status', from: 0, track: '6.5rem', cell: (thread) => html`<${Status} of=${thread.status} />` },
  { id: 'owner', name: 'Owner', from: 70, track: 'minmax(4rem, 9rem)', named: true, cell: (thread) => html`<${Line} text=${thread.owner} />` },
  { id: 'queued', name: 'Queued', from: 70, track: '4rem', kind: 'soft figure', named: true, cell: (thread) => (thread.queued > 0 ? number(thread.queued) : '') },
  { id: 'updated', name: 'Updated', from: 0, track: '4.75rem', kind: 'soft', cell: (thread) => html`<${Time} at=${thread.updated_at} />` },
  { id: 'runs', name: 'Runs', from: 110, track: '3rem', kind: 'over', cell: (thread) => html`<a href=${link('runs', '', { q: term('thread', thread.id) })}>runs</a>` },
];

const ABOUT = {
  href: (thread) => `chat#${encodeURIComponent(thread.id)}`,
  title: (thread) => thread.title || thread.id,
  note: (thread) => (thread.title ? html`<${Line} text=${thread.id} />` : ''),
};

export function Threads({ params }) {
  const q = params.q ?? '';
  const list = usePages((page) => client.threads({ q, ...page }), [q], ['run.', 'message']);
  const columns = useColumns('threads', COLUMNS);
  return html`<section class="page fill">
    <h1>Threads</h1>
    <div class="beside"><${Filter} q=${q} page="threads" label="Filter threads" hint="id:support-* agent:coder status:waiting" />${!isEmpty(list) && html`<${Columns} of=${columns} />`}</div>
    <${Rows} list=${list} label="Threads" name="Latest message" about=${ABOUT} columns=${columns.shown}>
      <${Empty} title=${q ? 'No threads match' : 'No threads yet'}>Start one in the <a href="chat">chat</a> or with <code>mailroom send</code>. Messages are found on the page <a href="#/search">Search</a>.<//>
    <//>
  </section>`;
}
