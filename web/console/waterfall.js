// The time of a run as bars: its queue, attempts and waits, what happened in them, and the runs that it sent.

import { displayLine } from '../chat/client/mailroom.js';
import { html, useEffect, useMemo, useRef, useState } from '../vendor/preact.js';
import { endWords, spanWord, stateWords } from './kinds.js';
import { Block, Detail, Line, RunLink } from './parts.js';
import { makeScale, placeOf, ticks } from './scale.js';
import { spansOf, sumUp } from './spans.js';
import { duration, number, whole } from './words.js';

const SHOWN = 100; // spans below one that are shown; the others are summed up
const OPEN = 5; // attempts that are open at the begin; of more, only the last one is
const BANDS = 100; // shortened parts that are marked in the rows
const DEEPEST = 20; // runs that have sent each other

/** @typedef {import('./spans.js').Span} Span */
/** @typedef {{ span: Span, key: string, level: number, place: number, of: number, can: boolean, open: boolean, above: string, run: string, problem: string }} RowOf */

/**
 * The time of a run and of the runs below it that are open, as a tree that the arrow keys move in. show gets the seq of
 * an entry that the user wants to see in the log.
 */
export function Waterfall({ logs, now, show }) {
  const [turned, setTurned] = useState(new Map()); // key: open or not, unless it is as at the begin
  const [limits, setLimits] = useState(new Map()); // key: spans below it that are shown
  const [told, setTold] = useState(new Set()); // keys whose details are shown
  const [at, setAt] = useState('');
  const [shorten, setShorten] = useState(true);
  const { width, track } = useWidth();
  const { rows, from, to, busy, backwards } = useMemo(() => layOut(logs, { now, turned, limits }), [logs.version, now, turned, limits]);
  const list = useRef(null);
  const scale = makeScale(from, to, busy, shorten);
  const short = scale.parts.filter((part) => part.short);
  const active = rows.some(({ key }) => key === at) ? at : rows[0]?.key;

  const turn = (row, open) => {
    if (row.span.kind === 'more') {
      setLimits((old) => new Map(old).set(row.above, (old.get(row.above) ?? SHOWN) + 2 * SHOWN));
      return;
    }
    if (row.span.kind === 'child' && open) logs.open(row.span.run);
    setTurned((old) => new Map(old).set(row.key, open));
  };
  const tell = (row) => {
    if (row.span.kind === 'more') turn(row, true);
    else setTold((old) => { const next = new Set(old); if (!next.delete(row.key)) next.add(row.key); return next; });
  };
  const move = (key) => {
    if (!key) return;
    setAt(key);
    list.current?.querySelector(`[data-key="${CSS.escape(key)}"]`)?.focus();
  };
  const press = (event) => {
    if (!event.target.matches('.item') || event.ctrlKey || event.metaKey || event.altKey) return;
    const i = rows.findIndex(({ key }) => key === active);
    const row = rows[i];
    const act = {
      ArrowDown: () => move(rows[i + 1]?.key), ArrowUp: () => move(rows[i - 1]?.key), Home: () => move(rows[0].key), End: () => move(rows.at(-1).key),
      ArrowRight: () => (row.can && !row.open ? turn(row, true) : row.open && move(rows[i + 1]?.key)),
      ArrowLeft: () => (row.open ? turn(row, false) : move(row.above)),
      Enter: () => { if (row.can && !row.open) turn(row, true); else tell(row); }, ' ': () => tell(row),
    }[event.key];
    if (!row || !act) return;
    event.preventDefault();
    act();
  };
  const breaks = short.length > 0 && short.length <= BANDS ? `linear-gradient(to right, ${short.map(({ left, right }) => `transparent ${left * 100}%, var(--break) ${left * 100}% ${right * 100}%, transparent ${right * 100}%`).join(', ')})` : 'none';
  return html`<section class="waterfall" aria-label="Time of the run">
    <div class="head">
      <h2>Time</h2>
      <p class="hint">${duration(to - from)} in all, from <time datetime=${new Date(from).toISOString()}>${whole(from)}</time>. ${short.length > 0 && html`<span class="shortened">${short.length === 1 ? 'One part' : `${number(short.length)} parts`} in which nothing ran (${duration(short.reduce((sum, part) => sum + part.to - part.from, 0))}) ${short.length === 1 ? 'is' : 'are'} drawn narrow, with its length (//); behind it, times count from its end. </span>`}${backwards && 'Servers had different clocks: a time went back. '}</p>
      ${(short.length > 0 || !shorten) && html`<button type="button" class="quiet" aria-pressed=${String(!shorten)} onClick=${() => setShorten(!shorten)}>True scale</button>`}
    </div>
    <div class="axis" aria-hidden="true"><span class="name"></span><span class="track" ref=${track}>${ticks(scale, width, duration).map((tick) => html`<span key=${`${tick.at} ${tick.short}`} class="tick" data-short=${tick.short ? '' : null} style=${{ left: `${tick.at * 100}%` }}>${tick.short ? `// ${tick.text}` : tick.text}</span>`)}</span><span class="took"></span></div>
    <div role="treegrid" class="tree" aria-label="Queue, attempts, steps and tools" ref=${list} style=${{ '--breaks': breaks }} onKeyDown=${press}>
      ${rows.map((row) => html`<${Row} key=${row.key} row=${row} scale=${scale} begin=${from} active=${row.key === active} told=${told.has(row.key)} focus=${() => setAt(row.key)} turn=${turn} tell=${tell} show=${row.run === logs.id ? show : null} />`)}
    </div>
    ${logs.root?.nextChildren && html`<p class="hint">${number(logs.root.children.length)} of the runs that it sent are loaded. <button type="button" class="link" onClick=${() => logs.moreChildren(logs.id)}>Load more</button></p>`}
  </section>`;
}

// useWidth returns the width of an element, in pixels, and a function that gets the element.
function useWidth() {
  const [width, setWidth] = useState(600);
  const [node, setNode] = useState(null);
  useEffect(() => {
    if (!node) return () => {};
    const size = new ResizeObserver(([{ contentRect }]) => setWidth(Math.round(contentRect.width)));
    size.observe(node);
    return () => size.disconnect();
  }, [node]);
  return { width, track: setNode };
}

/**
 * The rows of the tree in their order, the time that they cover, and when something ran.
 * @returns {{ rows: RowOf[], from: number, to: number, busy: [number, number][], backwards: boolean }}
 */
function layOut(logs, { now, turned, limits }) {
  /** @type {RowOf[]} */
  const rows = [];
  /** @type {[number, number][]} */
  const busy = [];
  const all = { rows, from: Infinity, to: -Infinity, busy, backwards: false };
  const addRun = (log, level, above, path) => {
    const tree = spansOf(log.run, log.entries, { now, gap: log.gap, children: log.children });
    all.from = Math.min(all.from, tree.from);
    all.to = Math.max(all.to, tree.to);
    all.backwards ||= tree.backwards;
    const attempts = tree.spans.filter(({ kind }) => kind === 'attempt');
    const begin = new Set(attempts.length <= OPEN ? attempts : attempts.slice(-1));
    add(tree.spans, { level, above, path, run: log.id, begin });
  };
  const add = (spans, { level, above, path, run, begin }) => {
    const list = sumUp(spans, limits.get(above) ?? SHOWN);
    list.forEach((span, i) => {
      const key = `${path} ${span.id}`;
      const log = span.kind === 'child' ? logs.get(span.run) : null;
      const deep = path.split(' ').length;
      const can = span.children.length > 0 || span.kind === 'more' || (span.kind === 'child' && span.run !== '' && !path.split(' ').includes(span.run) && deep < DEEPEST);
      const open = can && span.kind !== 'more' && (turned.get(key) ?? begin.has(span));
      if (ran(span, open && log?.run)) busy.push([span.from, span.to]);
      const problem = !open || !log ? '' : log.error && !log.run ? problemOf(log.error) : log.run ? '' : 'Loading…';
      rows.push({ span, key, level, place: i + 1, of: list.length, can, open, above, run, problem });
      if (open && span.children.length > 0) add(span.children, { level: level + 1, above: key, path, run, begin });
      if (open && log?.run) addRun(log, level + 1, key, `${path} ${span.run}`);
    });
  };
  if (logs.root?.run) addRun(logs.root, 1, '', logs.id);
  return all;
}

const problemOf = (error) => (error.code === 'forbidden' || error.code === 'not_found' ? 'Your token may not see this run, or it was removed.' : error.detail ?? error.message);

// ran reports whether a server or worker was busy in the whole span, as far as its log says. Of an open child its attempts are.
function ran({ kind, state }, opened) {
  if (kind === 'attempt') return true;
  return kind === 'child' && !opened && state !== 'waiting' && state !== 'queued' && state !== 'unknown';
}

// tookOf returns the length of a span: at most that long, if its end is not known. Points have none.
function tookOf(span) {
  if (span.end === 'unloaded' || span.backwards) return '?';
  if (span.to === span.from && !span.open && ['message', 'memo', 'note', 'effect', 'step'].includes(span.kind)) return '';
  return `${span.end === 'log' || span.end === 'now' ? '' : '≤ '}${duration(span.to - span.from)}`;
}

// wordOf returns the word for its kind, and a space; '' if its name has it.
const wordOf = ({ kind, name }) => (kind === 'more' || name.startsWith(spanWord(kind)) ? '' : `${spanWord(kind)} `);

const labelOf = (span, begin, problem) => displayLine([
  `${wordOf(span)}${span.name}`, span.kind !== 'more' && stateWords(span.state), tookOf(span) && `took ${tookOf(span)}`, `begins after ${duration(span.from - begin)}`,
  endWords(span.end), span.outlives && 'ends after the one above it', problem,
].filter(Boolean).join(', '));

const POINTS = new Set(['message', 'memo', 'note']);

function Row({ row, scale, begin, active, told, focus, turn, tell, show }) {
  const { span, key, level, can, open, problem } = row;
  const [left, right] = [placeOf(scale, span.from), placeOf(scale, span.to)];
  const point = POINTS.has(span.kind) || (span.to === span.from && span.end === 'log');
  const press = (event) => {
    if (event.target.closest('.turn')) turn(row, !open);
    else if (can && !open) turn(row, true);
    else tell(row);
  };
  return html`<div role="row" class="item span" aria-level=${level} aria-posinset=${row.place} aria-setsize=${row.of} aria-expanded=${can ? String(open) : null} aria-label=${labelOf(span, begin, problem)} tabindex=${active ? 0 : -1} data-key=${key} data-kind=${span.kind} data-state=${span.state} onFocus=${focus} onClick=${press}>
      <span role="gridcell" class="name" style=${{ '--level': Math.min(level - 1, 8) }}><span class="turn" aria-hidden="true" data-open=${can ? String(open) : null}></span><span class="text" title=${displayLine(span.name)}><span class="word">${wordOf(span)}</span><${Line} text=${span.name} /></span>${problem && html` <span class="hint">${displayLine(problem)}</span>`}</span>
      <span role="gridcell" class="track" aria-label=${`begins after ${duration(span.from - begin)}`}><span class="bar" data-point=${point ? '' : null} data-end=${span.end} style=${{ left: `min(${left * 100}%, 100% - 4px)`, width: `${Math.max(right - left, 0) * 100}%` }}></span></span>
      <span role="gridcell" class="took">${tookOf(span)}</span>
    </div>
    ${told && html`<div role="row" aria-level=${level + 1} aria-label="Details"><div role="gridcell" aria-colspan="3" class="about"><${About} span=${span} show=${show} /></div></div>`}`;
}

const exact = new Intl.DateTimeFormat(undefined, { year: 'numeric', month: 'short', day: 'numeric', hour: 'numeric', minute: '2-digit', second: '2-digit', fractionalSecondDigits: 3 });

// About has the details of a span.
function About({ span, show }) {
  const notes = [endWords(span.end), span.before && 'It began before what it is listed under.', span.outlives && 'It ended after what it is listed under.', span.backwards && 'Its end was written with an earlier time than its begin: servers had different clocks.'].filter(Boolean);
  return html`<dl>
      <${Detail} name="Begin">${exact.format(span.from)}<//>
      ${span.to !== span.from && !span.open && html`<${Detail} name="End">${exact.format(span.to)}<//>`}
      <${Detail} name="State">${stateWords(span.state)}<//>
      ${span.run && html`<${Detail} name="Run"><${RunLink} id=${span.run} /><//>`}
      ${notes.length > 0 && html`<${Detail} name="Note">${notes.map((note, i) => html`<span key=${i}>${note[0].toUpperCase()}${note.slice(1)} </span>`)}<//>`}
      ${span.detail.map(([name, value], i) => html`<${Detail} key=${i} name=${name}>${TIMES.has(name) && Date.parse(value) ? whole(value) : typeof value === 'string' && value.length < 200 && !value.includes('\n') ? html`<${Line} text=${value} />` : html`<${Block} value=${cut(value)} label=${name} />`}<//>`)}
    </dl>
    ${show && span.seq > 0 && html`<p><button type="button" class="link" onClick=${() => show(span.seq)}>Show it in the log</button></p>`}`;
}

const TIMES = new Set(['Next try', 'Until', 'Not before', 'Expires']); // terms whose values are times

const LONG = 10_000; // characters of a value; the log has the whole

function cut(value) {
  const text = typeof value === 'string' ? value : JSON.stringify(value, null, 2) ?? '';
  return text.length > LONG ? `${text.slice(0, LONG)}\n… ${number(text.length - LONG)} more characters: the log has them` : text;
}
