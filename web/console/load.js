// Loading what a page shows.

import { useCallback, useEffect, useRef, useState } from '../vendor/preact.js';
import { lose } from './account.js';
import { listen, opened } from './live.js';
import { paced } from './pace.js';

/**
 * Loads data for a component, and again when one of watch changes, when entries come whose kind begins with
 * one of kinds, and after a reconnect. read gets an AbortSignal. Returns { data, error, loading, reload }; the
 * old data stays while new data loads.
 */
export function useLoad(read, watch, kinds = ['']) {
  const [state, setState] = useState({ data: null, error: null, loading: true });
  const run = useRef({ busy: false, again: false, stop: null });
  const reload = useCallback(async () => {
    const now = run.current;
    if (now.busy) { // one request at a time; the last change causes another one
      now.again = true;
      return;
    }
    now.busy = true;
    const stop = now.stop = new AbortController();
    try {
      const data = await read(stop.signal);
      if (!stop.signal.aborted) setState({ data, error: null, loading: false });
    } catch (error) {
      if (!stop.signal.aborted) {
        if (error.code === 'unauthenticated') lose();
        setState((old) => ({ data: old.data, error, loading: false }));
      }
    }
    if (now.stop !== stop) return; // the component watches something else, or is gone
    now.busy = false;
    if (now.again) {
      now.again = false;
      reload();
    }
  }, watch);
  useEffect(() => {
    const now = run.current;
    now.busy = now.again = false;
    setState((old) => ({ ...old, loading: true }));
    let here = true;
    opened().then(() => here && reload());
    const { ask, end } = paced(reload);
    const ignore = listen((entries) => {
      if (entries.length === 0) reload();
      else if (entries.some(({ kind }) => kinds.some((begin) => kind.startsWith(begin)))) ask();
    });
    return () => {
      here = false;
      ignore();
      end();
      now.stop?.abort();
      now.stop = null;
    };
  }, watch);
  return { ...state, reload };
}

/** The time, renewed every that many seconds, for ages. */
export function useNow(seconds = 15) {
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), seconds * 1000);
    return () => clearInterval(timer);
  }, [seconds]);
  return now;
}
