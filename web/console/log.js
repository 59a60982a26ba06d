// The entries of a run, with words for their kinds.

import { displayLine, displayText } from '../chat/client/mailroom.js';
import { plain } from '../chat/text.js';
import { html, useEffect, useMemo, useRef, useState } from '../vendor/preact.js';
import { kindWords } from './kinds.js';
import { between, duration, number, whole } from './words.js';

const SHOWN = 200; // entries that are shown at first, and with each "show more"
const LONG = 2_000; // characters of a body that are shown until it is unfolded

/** Whether an entry has the text, in lower case, in its kind or body. */
export const has = (entry, text) => kindWords(entry.kind).toLowerCase().includes(text) || `${entry.kind} ${JSON.stringify(entry.body)}`.toLowerCase().includes(text);

/**
 * The log of a run: entries are those that are loaded. wanted is { seq } of an entry to show, or null.
 */
export function Log({ logs, wanted }) {
  const { run, entries, gap, blind, full } = logs.root;
  const [kind, setKind] = useState('');
  const [attempt, setAttempt] = useState('');
  const [text, setText] = useState('');
  const [most, setMost] = useState(SHOWN);
  const [newest, setNewest] = useState(false); // first
  const [open, setOpen] = useState({ all: false, turned: new Set() });
  const sought = useLater(text.trim().toLowerCase());
  const kinds = new Map();
  for (const entry of entries) kinds.set(entry.kind, (kinds.get(entry.kind) ?? 0) + 1);
  const attempts = [...new Set(entries.map((entry) => entry.attempt).filter((n) => n > 0))];
  const found = entries.filter((entry) => (!kind || entry.kind === kind) && (!attempt || String(entry.attempt) === attempt) && (!sought || has(entry, sought)));
  const list = useRef(null);
  useEffect(() => {
    if (!wanted) return;
    setKind('');
    setAttempt('');
    setText('');
    setNewest(false);
    setMost((old) => Math.max(old, entries.findIndex(({ seq }) => seq === wanted.seq) + SHOWN));
    setOpen((old) => (old.all === old.turned.has(wanted.seq) ? { ...old, turned: flip(old.turned, wanted.seq) } : old));
  }, [wanted]);
  useEffect(() => {
    const row = wanted && list.current?.querySelector(`[data-seq="${wanted.seq}"] summary`);
    row?.focus({ preventScroll: true });
    row?.scrollIntoView({ block: 'center' });
  }, [wanted, most, kind, attempt, sought]);
  const filtered = kind || attempt || sought;
  const shown = newest ? found.slice(-most).reverse() : found.slice(0, most);
  const crossed = (a, b) => gap && !filtered && a && (a.seq < gap.before) !== (b.seq < gap.before);
  return html`<section class="log" aria-label="Log">
    <h2>Log</h2>
    <div class="tools">
      <input type="search" aria-label="Search in the loaded entries" placeholder="Search in the loaded entries" value=${text} onInput=${(event) => setText(event.target.value)} />
      <select aria-label="Kind of entry" value=${kind} onChange=${(event) => setKind(event.target.value)}><option value="">All kinds</option>${[...kinds].sort().map(([one, n]) => html`<option key=${one} value=${one} selected=${one === kind}>${displayLine(kindWords(one))} (${number(n)})</option>`)}</select>
      ${attempts.length > 1 && html`<select aria-label="Attempt" value=${attempt} onChange=${(event) => setAttempt(event.target.value)}><option value="">All attempts</option>${attempts.map((n) => html`<option key=${n} value=${n} selected=${String(n) === attempt}>Attempt ${n}</option>`)}</select>`}
      <button type="button" class="quiet" onClick=${() => setOpen({ all: !open.all, turned: new Set() })}>${open.all ? 'Fold all' : 'Unfold all'}</button>
      <button type="button" class="quiet" aria-pressed=${String(newest)} onClick=${() => setNewest(!newest)}>Newest first</button>
      <span class="count" role="status">${filtered ? `${number(found.length)} of ${number(entries.length)} loaded entries` : `${number(entries.length)} ${entries.length === 1 ? 'entry' : 'entries'}`}</span>
    </div>
    ${gap && html`<${Gap} logs=${logs} gap=${gap} blind=${blind} full=${full} />`}
    ${found.length === 0 && html`<p class="hint">${filtered ? 'No loaded entry matches.' : 'No entries.'}</p>`}
    <ol class="entries" ref=${list}>${shown.map((entry, i) => html`
      ${crossed(shown[i - 1], entry) && html`<li key="gap" class="gap-row hint">Between these, entries are not loaded.</li>`}
      <${Entry} key=${entry.seq} run=${run} entry=${entry} open=${open.all !== open.turned.has(entry.seq)} turn=${() => setOpen((old) => ({ ...old, turned: flip(old.turned, entry.seq) }))} />`)}</ol>
    ${found.length > most && html`<p><button type="button" class="quiet" onClick=${() => setMost(most + SHOWN)}>Show ${number(Math.min(SHOWN, found.length - most))} more of ${number(found.length - most)}</button></p>`}
  </section>`;
}

// Gap says that a long log is not loaded as a whole.
function Gap({ logs, gap, blind, full }) {
  return html`<p class="hint">The first and the last entries are loaded. Between them are ${blind ? 'not even all attempts' : 'only the begins and ends of attempts, waits and questions'} (from entry ${number(gap.after + 1)} of the thread). ${full ? 'The page holds no more.' : html`<button type="button" class="link" onClick=${() => logs.more(logs.id)}>Load more</button>`}</p>`;
}

function flip(old, seq) {
  const next = new Set(old);
  if (!next.delete(seq)) next.add(seq);
  return next;
}

// useLater returns a value once it has not changed for a moment.
function useLater(value) {
  const [late, setLate] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => setLate(value), 200);
    return () => clearTimeout(timer);
  }, [value]);
  return value === '' ? '' : late;
}

function Entry({ run, entry, open, turn }) {
  const what = useMemo(() => summary(entry), [entry]);
  return html`<li data-kind=${entry.kind.split('.')[0]} data-seq=${entry.seq}>
    <details open=${open} onToggle=${(event) => { if (event.currentTarget.open !== open) turn(); }}>
      <summary><span class="at" title=${whole(entry.at)}>+${duration(between(run.created_at, entry.at))}</span> <span class="kind" title=${displayLine(entry.kind)}>${displayLine(kindWords(entry.kind))}</span> <span class="what">${what}</span></summary>
      ${open && html`<${Body} entry=${entry} />`}
    </details></li>`;
}

/** What an unfolded entry shows. */
export function Body({ entry }) {
  const [long, setLong] = useState(false);
  const text = plain(entry.body) || '{}';
  const shown = long ? text : text.slice(0, LONG);
  return html`<p class="tools small"><span class="hint">Entry ${number(entry.seq)} of the thread, <code>${displayLine(entry.kind)}</code>${entry.attempt > 0 && `, attempt ${entry.attempt}`}, ${whole(entry.at)}</span> <${Copy} entry=${entry} /></p>
    <pre tabindex="0" aria-label=${`Entry ${entry.seq}`} class="block">${displayText(shown)}</pre>
    ${text.length > LONG && html`<p class="tools small"><button type="button" class="link" onClick=${() => setLong(!long)}>${long ? 'Fold' : `Show all ${number(text.length)} characters`}</button></p>`}`;
}

// Copy puts the JSON of an entry on the clipboard. A browser that refuses gets it selected, for a copy by hand.
function Copy({ entry }) {
  const [state, setState] = useState('');
  const raw = JSON.stringify(entry, null, 2);
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(raw);
      setState('Copied');
    } catch {
      setState('refused');
    }
  };
  return html`<button type="button" class="quiet" onClick=${copy}>Copy JSON</button> <span class="hint" role="status">${state === 'Copied' && state}</span>
    ${state === 'refused' && html`<textarea readonly aria-label="JSON of the entry, to copy by hand" ref=${(node) => node?.select()} value=${raw}></textarea>`}`;
}

/** What an entry is about, in one line. */
export function summary({ body }) {
  const text = body?.text ?? body?.parts?.map?.(({ text: part }) => part).filter(Boolean).join(' ') ?? body?.error?.message ?? body?.error ?? body?.summary ?? body?.name ?? body?.prompt ?? body?.reason ?? body?.decision ?? body?.reply ?? body?.thread ?? body?.worker ?? '';
  const more = body?.name && body?.arguments !== undefined ? ` ${plain(body.arguments)}` : '';
  return displayLine(`${plain(text).slice(0, 300)}${more.slice(0, 300)}`).slice(0, 300);
}
