// What operators did, newest first.

import { displayLine } from '../chat/client/mailroom.js';
import { html, useEffect, useState } from '../vendor/preact.js';
import { client } from './account.js';
import { go, link, term } from './address.js';
import { Columns, useColumns } from './columns.js';
import { isEmpty, usePages } from './list.js';
import { Action, Empty, Line, Time } from './parts.js';
import { Rows } from './rows.js';
import { Filter } from './runs.js';
import { short, whole } from './words.js';

const LOOK = 5_000; // milliseconds between two looks for new actions, while the page is visible
const AROUND = 30 * 60_000; // milliseconds before and after a time that was asked for
const EXPORTED = 50_000; // actions of one export at most

const COLUMNS = [
  { id: 'action', name: 'Code', from: 110, track: '9rem', kind: 'soft', named: true, cell: (action) => html`<code><${Line} text=${action.action} /></code>` },
  { id: 'actor', name: 'Actor', from: 0, track: 'minmax(4rem, 9rem)', cell: (action) => html`<${Line} text=${action.actor || 'unknown'} />` },
  { id: 'source', name: 'From', from: 70, track: 'minmax(5rem, 9rem)', kind: 'soft', named: true, cell: (action) => html`<${Line} text=${action.from} />` },
  { id: 'by', name: 'With', from: 110, track: '5rem', kind: 'soft', named: true, cell: (action) => html`<${Line} text=${action.actor_kind} />` },
  { id: 'at', name: 'When', from: 0, track: '4.75rem', kind: 'soft', cell: (action) => html`<${Time} at=${action.at} />` },
];

// ACTIONS has words for actions, with what they act on.
const ACTIONS = {
  'sign-in': 'Signed in', 'sign-out': 'Signed out', 'sign-in.refused': 'Refused secrets', 'token.create': 'Made', 'token.revoke': 'Revoked',
  'token.quotas': 'Set the quotas of', 'budget.raise': 'Raised', 'agent.pause': 'Paused', 'agent.resume': 'Resumed', 'channel.resume': 'Resumed', 'ticket.approve': 'Approved',
  'ticket.deny': 'Denied', 'ticket.answer': 'Answered', 'run.cancel': 'Cancelled', 'run.retry': 'Retried', 'thread.interrupt': 'Interrupted',
  'thread.change': 'Changed', 'thread.delete': 'Deleted', 'reservation.release': 'Ended', 'rule.put': 'Set', 'rule.delete': 'Deleted',
  'push.subscribe': 'Subscribed', 'pairing.approve': 'Let in', 'pairing.revoke': 'Shut out',
};
const OBJECTS = { limited: 'limited token', ticket: 'question', user: 'chat user' };

// words says what was done. The row of a token, behind "~", is left to the details of the action.
function words({ action, object_kind: kind, object }) {
  const verb = Object.hasOwn(ACTIONS, action) ? ACTIONS[action] : action;
  if (action.startsWith('sign-')) return verb;
  const noun = Object.hasOwn(OBJECTS, kind) ? OBJECTS[kind] : kind;
  return displayLine(`${verb} ${noun} ${short(object.split('~')[0])}`.trim());
}

const isTime = (value) => /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d/.test(value);

const detail = ({ detail: of }) => Object.entries(of)
  .map(([name, value]) => `${name.replaceAll('_', ' ')}: ${isTime(String(value)) ? whole(value) : value}`).join(', ');

const ABOUT = {
  href: target,
  title: words,
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
    <div class="beside"><${Filter} q=${q} page="audit" label="Filter actions" hint="actor:ann action:token.* at:>2026-11-01" />${!isEmpty(list) && html`<${Columns} of=${columns} />`}</div>
    <${Around} q=${q} some=${!isEmpty(list)} />
    <${Rows} list=${list} label="Actions" name="Action" about=${ABOUT} columns=${columns.shown}>
      <${Empty} title=${q ? 'No actions match' : 'No actions yet'}>What operators do is here: who decided, cancelled, paused, signed in, or changed a token or a rule.<//>
    <//>
  </section>`;
}

// Around shows the actions around a time of day, the last one that has passed, and exports what matches.
function Around({ q, some }) {
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
    ${some && html`<${Action} label="Export what matches as JSON lines" run=${() => save(q)}>Export<//>`}
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
