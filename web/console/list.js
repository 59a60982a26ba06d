// Lists that load page after page as the user scrolls.

import { useEffect, useRef, useState } from '../vendor/preact.js';
import { lose } from './account.js';
import { listen, opened } from './live.js';
import { paced } from './pace.js';

const [FIRST, MORE] = [100, 500]; // items of the first page, which is read again after each change, and of the others
// A longer list is cut to its newest page, unless the user has scrolled through at least half of it.
const GROWN = 2_000;

/**
 * The items of a list of the server, newest first: { items, error, more, end, lookedTo, reload }. fetch gets
 * { cursor, limit, signal }. watch restarts it. After entries whose kind begins with one of kinds, the newest
 * page is read again and merged: items change in place, and new ones are put before the others.
 */
export function usePages(fetch, watch, kinds) {
  const [state, setState] = useState(fresh());
  const now = useRef(null);
  const shown = useRef(state);
  shown.current = state;
  const run = async (cursor) => {
    const mine = now.current;
    if (mine.busy) { // one request at a time
      if (cursor === undefined) mine.again = true;
      else mine.more = true;
      return;
    }
    mine.busy = true;
    try {
      const page = await fetch({ cursor, limit: cursor === undefined ? FIRST : MORE, signal: mine.stop.signal });
      if (now.current === mine) setState((old) => (cursor === undefined ? merged(old, page) : appended(old, page, cursor)));
    } catch (error) {
      if (now.current === mine && !mine.stop.signal.aborted) {
        if (error.code === 'unauthenticated') lose();
        setState((old) => ({ ...old, error, loading: false }));
      }
    }
    mine.busy = false;
    if (now.current !== mine) return;
    if (mine.again) {
      mine.again = false;
      run();
    } else if (mine.more) {
      mine.more = false;
      setTimeout(() => now.current === mine && shown.current.next && run(shown.current.next)); // after the new state was rendered
    }
  };
  useEffect(() => {
    const mine = now.current = { busy: false, again: false, more: false, stop: new AbortController() };
    setState(fresh());
    opened().then(() => now.current === mine && run());
    const { ask, end } = paced(run);
    const ignore = listen((entries) => {
      if (entries.length === 0) run();
      else if (entries.some(({ kind }) => kinds.some((begin) => kind.startsWith(begin)))) ask();
    });
    return () => {
      ignore();
      end();
      mine.stop.abort();
      now.current = null;
    };
  }, watch);
  return { ...state, reload: () => run(), more: () => state.next && now.current && run(state.next) };
}

/** Whether a list has loaded, and has nothing. */
export const isEmpty = ({ items, loading, next }) => items.length === 0 && !loading && !next;

// paged: number of items that the user has scrolled through.
const fresh = () => ({ items: [], error: null, loading: true, next: null, lookedTo: null, paged: 0 });

// merged returns the items of the newest page, followed by the old ones that are older than it. An old item of the
// page's time span that the page lacks no longer matches and is dropped. A list that has grown by many new items is cut
// to the newest page, so that an open page does not grow for days.
function merged(old, page) {
  const known = new Set(page.items.map(({ id }) => id));
  const last = page.items.at(-1)?.id;
  const from = old.items.findIndex(({ id }) => id === last);
  const whole = !page.next || old.items.length === 0 || from < 0 || old.items.length > Math.max(GROWN, 2 * old.paged);
  const items = whole ? page.items : [...page.items, ...old.items.slice(from + 1).filter(({ id }) => !known.has(id))];
  return { items, error: null, loading: false, next: whole ? page.next : old.next, lookedTo: whole ? page.looked_to ?? null : old.lookedTo, paged: whole ? 0 : old.paged };
}

// appended returns the items with those of the next page after them. If the list was cut since the page was requested,
// it ignores the page. Pages that follow each other have no common item.
function appended(old, page, cursor) {
  if (old.next !== cursor) return old;
  return { items: old.items.concat(page.items), error: null, loading: false, next: page.next, lookedTo: page.looked_to ?? null, paged: old.items.length + page.items.length };
}
