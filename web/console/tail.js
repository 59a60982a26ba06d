// What happens on the server: the entries of all threads, as they come.

import { displayLine } from '../chat/client/mailroom.js';
import { html, useEffect, useMemo, useRef, useState } from '../vendor/preact.js';
import { kindWords } from './kinds.js';
import { listen } from './live.js';
import { Body, has, summary } from './log.js';
import { Empty, RunLink, ThreadLink } from './parts.js';
import { number } from './words.js';

const KEPT = 500; // entries; older ones leave the page
const clock = new Intl.DateTimeFormat(undefined, { timeStyle: 'medium' });

/** The page of entries as they come, the newest first. While it is paused, it keeps what comes and shows it later. */
export function Tail() {
  const came = useRef([]); // newest first: entries, and { lost } where entries may be missing
  const [, setCount] = useState(0); // of batches
  const [held, setHeld] = useState(null); // what is shown while the page is paused, null: it is not
  const [text, setText] = useState('');
  const [open, setOpen] = useState('');
  const total = useRef(0);
  useEffect(() => listen((entries) => {
    const fresh = entries.length > 0 ? entries.toReversed().map((entry) => ({ entry, key: `${entry.thread} ${entry.seq}` })) : [{ lost: new Date(), key: `lost ${Date.now()}` }];
    if (entries.length === 0 && came.current.length === 0) return; // the first connection
    total.current += entries.length;
    came.current = [...fresh, ...came.current].slice(0, KEPT);
    setCount((n) => n + 1);
  }), []);
  const all = held?.rows ?? came.current;
  const sought = text.trim().toLowerCase();
  const rows = sought ? all.filter(({ entry }) => entry && matches(entry, sought)) : all;
  const waiting = held ? total.current - held.total : 0;
  return html`<section class="page tail">
    <h1>Tail</h1>
    <div class="tools">
      <input type="search" aria-label="Search in the shown entries" placeholder="Kind, thread, run or words" value=${text} onInput=${(event) => setText(event.target.value)} />
      <button type="button" class="quiet" aria-pressed=${String(held !== null)} onClick=${() => setHeld(held ? null : { rows: came.current, total: total.current })}>${held ? 'Go on' : 'Pause'}</button>
      <span class="count" role="status">${held ? `${number(waiting)} more came` : sought ? `${number(rows.length)} of ${number(all.length)} entries` : `the last ${number(all.length)} entries since the page was opened`}</span>
    </div>
    ${all.length === 0 && html`<${Empty} title="Nothing has happened since the page was opened">Entries of all threads appear here as they are written.<//>`}
    ${all.length > 0 && rows.length === 0 && html`<p class="hint">No shown entry matches.</p>`}
    ${rows.length > 0 && html`<ol class="entries plain" aria-label="Entries, the newest first">${rows.map(({ entry, lost, key }) => (entry
      ? html`<${Row} key=${key} entry=${entry} open=${open === key} turn=${() => setOpen(open === key ? '' : key)} />`
      : html`<li key=${key} class="gap-row"><span class="hint">${clock.format(lost)}: entries may be missing here, because the page was not connected or not visible.</span></li>`))}</ol>`}
  </section>`;
}

const matches = (entry, sought) => `${entry.thread} ${entry.run ?? ''}`.toLowerCase().includes(sought) || has(entry, sought);

function Row({ entry, open, turn }) {
  const what = useMemo(() => summary(entry), [entry]);
  return html`<li data-kind=${entry.kind.split('.')[0]}>
    <details open=${open} onToggle=${(event) => { if (event.currentTarget.open !== open) turn(); }}>
      <summary><span class="at">${clock.format(new Date(entry.at))}</span> <span class="kind" title=${displayLine(entry.kind)}>${displayLine(kindWords(entry.kind))}</span> <span class="what"><strong>${displayLine(entry.thread)}</strong> ${what}</span></summary>
      ${open && html`<p class="tools small"><${ThreadLink} id=${entry.thread} /> ${entry.run && html`<${RunLink} id=${entry.run} />`}</p><${Body} entry=${entry} />`}
    </details></li>`;
}
