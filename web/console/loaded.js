// The entries of a run that a page has loaded: pure, without the document.

import { gapKinds } from './spans.js';

export const HEAD = 1_000; // entries of the begin that are read first
export const KEPT = 20_000; // entries of a run that a page holds

/** @typedef {import('./spans.js').LogEntry} LogEntry */
/**
 * What is known of a run. Of the entries between the seqs of the gap, only those of gapKinds are loaded; blind says that even of
 * these some are missing.
 * @typedef {object} RunLog
 * @property {string} id
 * @property {any} run null until it is read
 * @property {LogEntry[]} entries in order of seq
 * @property {{ after: number, before: number } | null} gap
 * @property {boolean} blind
 * @property {boolean} full it holds as many entries as a page may
 * @property {any[]} children rows of runs that descend from it, the newest first
 * @property {string | null} nextChildren
 * @property {any} error
 */

/** Adds entries to a list in order of seq. An entry that the list has is left out. */
export function merge(list, more) {
  const last = list.at(-1)?.seq ?? 0;
  if (more.every(({ seq }, i) => seq > (more[i - 1]?.seq ?? last))) return more.length === 0 ? list : list.concat(more);
  const by = new Map();
  for (const entry of [...list, ...more]) by.set(entry.seq, entry);
  return [...by.values()].sort((a, b) => a.seq - b.seq);
}

/**
 * A log with at most so many entries: the first ones and the newest ones. Those between them become its gap.
 * @param {RunLog} log
 */
export function trim(log, kept = KEPT, head = HEAD) {
  if (log.entries.length <= kept) return;
  const { entries } = log;
  const after = log.gap ? log.gap.after : entries[Math.min(head, kept >> 2) - 1].seq;
  const half = kept >> 1;
  const tail = entries.slice(-half);
  const first = entries.filter(({ seq }) => seq <= after).slice(0, kept >> 2);
  const bounds = { after: first.at(-1)?.seq ?? after, before: tail[0].seq };
  const between = entries.filter(({ seq, kind }) => seq > bounds.after && seq < bounds.before && gapKinds.includes(kind));
  const most = kept >> 2;
  log.blind ||= between.length > most;
  log.entries = [...first, ...between.slice(-most), ...tail];
  log.gap = bounds;
}
