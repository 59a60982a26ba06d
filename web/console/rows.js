// The rows of a list, of which only the visible ones are in the document.

import { elementScroll, observeElementOffset, observeElementRect, Virtualizer } from '../vendor/virtual.js';
import { html, useEffect, useLayoutEffect, useMemo, useReducer, useRef } from '../vendor/preact.js';
import { displayLine } from '../chat/client/mailroom.js';
import { isEmpty } from './list.js';
import { Problem } from './parts.js';
import { whole } from './words.js';

const narrow = matchMedia('(max-width: 60rem)');

// linesOf returns how many lines the columns have in a narrow window, where they are below the title. Others have one line.
const linesOf = (columns) => Math.max(1, Math.ceil(columns.length / 4));

/**
 * The lines of the title of a row, and the height of the row in pixels. In a narrow window a title that may be longer than
 * one line has two.
 */
function sizeOf(title, note, columns) {
  if (!narrow.matches) return { lines: 1, height: 52 };
  const wide = [...title].reduce((sum, c) => sum + (c < '\u0250' ? 8 : 16), 0);
  const lines = wide > innerWidth - 110 ? 2 : 1;
  return { lines, height: 24 + 20 * lines + (note ? 22 : 0) + 20 * linesOf(columns) };
}

/**
 * Rows of a list. about has href(item), title(item) and note(item), a second line or ''. Each row is one link; columns
 * are beside it. With picked, a Set of ids, rows can be selected, and pick gets a function that
 * makes the new Set from the old one.
 */
export function Rows({ list, label, name, about, columns, picked, pick, children }) {
  const { items } = list;
  const scroll = useRef(null);
  const [, draw] = useReducer((n) => n + 1, 0);
  const sizes = useMemo(() => items.map((item) => sizeOf(about.title(item), about.note(item), columns)), [items, narrow.matches && innerWidth, columns.length]);
  const v = useVirtual(scroll, sizes, draw);
  const last = v.getVirtualItems().at(-1)?.index ?? 0;
  useEffect(() => {
    if (items.length > 0 && last >= items.length - 20) list.more();
  }, [last, items.length, list.next]);
  useEffect(() => {
    addEventListener('resize', draw);
    return () => removeEventListener('resize', draw);
  }, []);
  useEffect(() => { // the head ends where the rows end, beside the scrollbar
    const { current: node } = scroll;
    node.parentElement.style.setProperty('--bar', `${node.offsetWidth - node.clientWidth}px`);
  });
  const toggle = (ids, on) => pick((old) => {
    const next = new Set(old);
    for (const id of ids) next[on ?? !old.has(id) ? 'add' : 'delete'](id);
    return next;
  });
  const at = useKeys(items, v, scroll, (id) => picked && toggle([id]));
  const tracks = [...(picked ? ['1.25rem'] : []), 'minmax(12rem, 1fr)', ...columns.map(({ track }) => track)].join(' ');
  const empty = isEmpty(list);
  const everything = items.length > 0 && items.every(({ id }) => picked?.has(id));
  return html`<${Problem} error=${list.error} retry=${list.reload} />
    ${empty && !list.error ? children : ''}
    <div class=${`rows ${picked ? 'picking' : ''}`} hidden=${empty} role="table" aria-label=${label} aria-rowcount=${list.next ? -1 : items.length + 1} ref=${(node) => { node?.style.setProperty('--tracks', tracks); node?.style.setProperty('--lines', linesOf(columns)); }}>
      <div class="head" role="row">
        ${picked && html`<span role="columnheader" class="pick"><label><input type="checkbox" aria-label="Select all that are loaded" checked=${everything} onChange=${(event) => toggle(items.map(({ id }) => id), event.target.checked)} /></label></span>`}
        <span role="columnheader">${name}</span>
        ${columns.map((column) => html`<span role="columnheader" key=${column.id} class=${column.kind}>${column.name}</span>`)}
      </div>
      <div class="scroll" role="rowgroup" ref=${scroll} tabindex="0" aria-label=${`${label}, rows`}>
        <div class="space" ref=${(node) => { if (node) node.style.height = `${v.getTotalSize()}px`; }}>
          ${v.getVirtualItems().map(({ index, start }) => items[index] && html`<${Row} key=${items[index].id} item=${items[index]} place=${{ index, start, ...sizes[index] }} about=${about} columns=${columns} picked=${picked} toggle=${toggle} at=${at} />`)}
        </div>
      </div>
    </div>
    ${list.next && html`<p class="hint looked">${list.lookedTo ? `Looked at what was created since ${whole(list.lookedTo)}. ` : ''}<button type="button" class="link" onClick=${list.more}>Load more</button></p>`}`;
}

function Row({ item, place: { index, start, height, lines }, about, columns, picked, toggle, at }) {
  const put = (node) => {
    if (node) [node.style.height, node.style.transform] = [`${height}px`, `translateY(${start}px)`];
  };
  const title = about.title(item);
  const note = about.note(item);
  return html`<div class="row" role="row" aria-rowindex=${index + 2} data-id=${item.id} data-picked=${picked?.has(item.id) ? '' : null} ref=${put} onFocusIn=${() => { at.current = item.id; }}>
    ${picked && html`<span role="cell" class="pick"><label><input type="checkbox" aria-label=${`Select ${displayLine(title)}`} checked=${picked.has(item.id)} onChange=${(event) => toggle([item.id], event.target.checked)} /></label></span>`}
    <span role="cell" class="main"><a class="title" data-lines=${lines} href=${about.href(item)}>${displayLine(title)}</a>${note && html`<span class="note">${note}</span>`}</span>
    <span role="none" class="cells">${columns.map((column) => html`<span role="cell" key=${column.id} class=${`cell ${column.kind ?? ''}`} data-column=${column.id} data-name=${column.named ? column.name : null}>${column.cell(item)}</span>`)}</span>
  </div>`;
}

// useVirtual returns a virtualizer of rows with these sizes.
function useVirtual(scroll, sizes, draw) {
  const virtual = useRef(null);
  const latest = useRef(sizes);
  latest.current = sizes;
  virtual.current ??= new Virtualizer({
    count: 0, getScrollElement: () => scroll.current, estimateSize: (index) => latest.current[index].height, overscan: 8, onChange: draw,
    scrollToFn: elementScroll, observeElementRect, observeElementOffset,
  });
  const v = virtual.current;
  v.setOptions({ ...v.options, count: sizes.length });
  useLayoutEffect(() => v._didMount(), []);
  useLayoutEffect(() => v._willUpdate());
  const all = sizes.map(({ height }) => height).join(' ');
  useLayoutEffect(() => v.measure(), [all]); // it keeps the heights that it knows
  return v;
}

// useKeys moves the focus from row to row with j and k, and selects the row with x. The ref that it returns has the id
// of the row that had the focus last.
function useKeys(items, v, scroll, toggle) {
  const at = useRef(null);
  const wanted = useRef(false); // the row is not in the document yet
  const focus = () => {
    if (!wanted.current) return;
    const link = scroll.current?.querySelector(`[data-id="${CSS.escape(at.current)}"] .title`);
    if (!link) return;
    wanted.current = false;
    link.focus({ preventScroll: true });
  };
  useLayoutEffect(focus);
  useLayoutEffect(() => { // with the rows that are seen: an effect would come later, and keys would be about those before
    const press = ({ key, target, ctrlKey, metaKey, altKey }) => {
      if (ctrlKey || metaKey || altKey || target.closest('input:not([type="checkbox"]), textarea, select, dialog')) return;
      const place = items.findIndex(({ id }) => id === at.current);
      const step = { j: 1, k: -1 }[key];
      if (step && items.length > 0) {
        const next = Math.min(Math.max(place + step, 0), items.length - 1);
        at.current = items[next].id;
        wanted.current = true;
        v.scrollToIndex(next, { align: 'auto' });
        focus();
      } else if (key === 'x' && place >= 0) {
        toggle(at.current);
      }
    };
    addEventListener('keydown', press);
    return () => removeEventListener('keydown', press);
  });
  return at;
}
