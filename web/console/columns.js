// The columns of a list: those that fit the window, and the user's choice, which this browser keeps.

import { html, useEffect, useState } from '../vendor/preact.js';
import { Modal } from './parts.js';

const KEPT = 'mailroom.columns'; // by list and column: whether the user wants it
const STEP = 80; // pixels; a change of the window's width by less changes no column

/**
 * Returns { shown, all, choose, reset }: the columns of a list that are shown now. A column is { id, name, from, track,
 * cell, kind }: it is shown in windows of from rem and more, unless the user has chosen otherwise, and takes a track of
 * the grid.
 */
export function useColumns(list, all) {
  const [choice, setChoice] = useState(() => kept()[list] ?? {});
  const width = useWidth();
  const keep = (next) => {
    setChoice(next);
    localStorage.setItem(KEPT, JSON.stringify({ ...kept(), [list]: next }));
  };
  const shows = ({ id, from }) => (typeof choice[id] === 'boolean' ? choice[id] : width >= from);
  return { all, shown: all.filter(shows), choose: (id, on) => keep({ ...choice, [id]: on }), reset: () => keep({}) };
}

function kept() {
  try {
    return Object(JSON.parse(localStorage.getItem(KEPT)));
  } catch {
    return {};
  }
}

// useWidth returns the width of the window in rem, rounded down.
function useWidth() {
  const now = () => Math.floor(innerWidth / STEP) * STEP / 16;
  const [width, setWidth] = useState(now);
  useEffect(() => {
    const measure = () => setWidth(now());
    addEventListener('resize', measure);
    return () => removeEventListener('resize', measure);
  }, []);
  return width;
}

/** A button that opens the choice of columns. */
export function Columns({ of }) {
  const [open, setOpen] = useState(false);
  const { all, shown, choose, reset } = of;
  return html`<button type="button" class="quiet" onClick=${() => setOpen(true)}>Columns…</button>
    ${open && html`<${Modal} title="Columns" close=${() => setOpen(false)}>
      <ul class="choices">${all.map((column) => html`<li key=${column.id}><label class="check"><input type="checkbox" checked=${shown.includes(column)} onChange=${(event) => choose(column.id, event.target.checked)} /> ${column.name}</label></li>`)}</ul>
      <p class="hint">This browser keeps the choice. Without one, a wider window shows more columns.</p>
      <p class="buttons"><button type="button" onClick=${() => setOpen(false)}>Close</button> <button type="button" class="quiet" onClick=${reset}>Defaults</button></p>
    <//>`}`;
}
