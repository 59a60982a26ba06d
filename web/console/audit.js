// What operators did, newest first.

import { html, useEffect, useState } from '../vendor/preact.js';
import { client } from './account.js';
import { go, link, term } from './address.js';
import { Columns, useColumns } from './columns.js';
import { usePages } from './list.js';
import { Action, Empty, Line, Time } from './parts.js';
import { Rows } from './rows.js';
import { Filter } from './runs.js';

const LOOK = 5_000; // milliseconds between two looks for new actions, while the page is visible
const AROUND = 30 * 60_000; // milliseconds before and after a time that was asked for
const EXPORTED = 50_000; // actions of one export at most

const COLUMNS = [
  { id: 'actor', name: 'Actor', from: 0, track: 'minmax(4rem, 9rem)', cell: (action) => html`<${Line} text=${action.actor || 'unknown'} />` },
  { id: 'source', name: 'From', from: 70, track: 'minmax(5rem, 9rem)', kind: 'soft', named: true, cell: (action) => html`<${Line} text=${action.from} />` },
  { id: 'by', name: 'With', from: 110, track: '5rem', kind: 'soft', named: true, cell: (action) => html`<${Line} text=${action.actor_kind} />` },
  { id: 'at', name: 'When', from: 0, track: '4.75rem', kind: 'soft', cell: (action) => html`<${Time} at=${action.at} />` },
];

const detail = (action) => Object.entries(action.detail).map(([name, value]) => `${name}: ${value}`).join(', ');

const ABOUT = {
  href: target,
  title: (action) => `${action.action} ${action.object}`.trim(),
  note: (action) => html`<${Line} text=${detail(action)} />`,
};

// target returns the page of the object of an action, or the actions on it.
function target({ object_kind: kind, object, thread, detail: of }) {
  switch (kind) {
    case 'run': return link('run', object);
    case 'ticket': return of.run ? link('run', of.run) : link('inbox');
    case 'agent': return link('agent', object);
    case 'channel': return link('channels');
    case 'rule': case 'browser': return link('alerts');
    case 'token': case 'session': case 'limited': case 'link': return link('tokens');
  }
  if (thread) return `chat#${encodeURIComponent(thread)}`;
  return link('audit', '', { q: object ? term('object', object) : '' });
}

export function Audit({ params }) {
  const q = params.q ?? '';
  const list = usePages(async (page) => {
    const found = await client.audit({ q, ...page });
    return { ...found, items: found.items.map((action) => ({ ...action, id: String(action.seq) })) };
  }, [q], []);
  const columns = useColumns('audit', COLUMNS);
  const { reload } = list;
  useEffect(() => { // no stream has the audit log
    const timer = setInterval(() => { if (!document.hidden) reload(); }, LOOK);
    return () => clearInterval(timer);
  }, [q]);
  return html`<section class="page fill">
    <h1>Audit</h1>
    <div class="beside"><${Filter} q=${q} page="audit" label="Filter actions" hint="actor:ann action:token.* at:>2026-11-01" /><${Columns} of=${columns} /></div>
    <${Around} q=${q} />
    <${Rows} list=${list} label="Actions" name="Action" about=${ABOUT} columns=${columns.shown}>
      <${Empty} title=${q ? 'No actions match' : 'No actions yet'}>What operators do is here: who decided, cancelled, paused, signed in, or changed a token or a rule.<//>
    <//>
  </section>`;
}

// Around shows the actions around a time of day, the last one that has passed, and exports what matches.
function Around({ q }) {
  const [time, setTime] = useState('');
  const show = (event) => {
    event.preventDefault();
    if (!time) return;
    const at = new Date(`${new Date().toDateString()} ${time}`);
    if (at.valueOf() > Date.now()) at.setDate(at.getDate() - 1);
    const bound = (to) => new Date(at.valueOf() + to).toISOString();
    go('audit', '', { q: `at:${bound(-AROUND)}..${bound(AROUND)}` });
  };
  return html`<form class="tools" onSubmit=${show}>
    <label>Around <input type="time" value=${time} onInput=${(event) => setTime(event.target.value)} /></label>
    <button type="submit" class="quiet">Show</button>
    <${Action} label="Export what matches as JSON lines" run=${() => save(q)}>Export<//>
  </form>`;
}

// save downloads the actions that match a filter as JSON lines, the newest first.
async function save(q) {
  const lines = [];
  for (let cursor; lines.length < EXPORTED;) {
    const page = await client.audit({ q, cursor, limit: 500 });
    lines.push(...page.items.map((action) => `${JSON.stringify(action)}\n`));
    if (!page.next) break;
    cursor = page.next;
  }
  const file = URL.createObjectURL(new Blob(lines, { type: 'application/jsonl' }));
  const anchor = Object.assign(document.createElement('a'), { href: file, download: 'audit.jsonl' });
  anchor.click();
  setTimeout(() => URL.revokeObjectURL(file), 60_000);
}
