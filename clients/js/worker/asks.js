// Waiting: for a person, a time, an event or another run. While a run waits, no process holds it.

import { checkName } from './attempt.js';
import { conflict, invalid } from './errors.js';
import { canonical, checkSize, bytesOf, duration, encode, KiB, plain } from './json.js';

const limit = 64 * KiB; // of each part of a question

/**
 * Returns the ticket of a question once it is decided or has expired. Until then it parks the run: the handler ends
 * with Parked, and a later attempt calls again. Questions that are asked in parallel are opened together, and the
 * first decision starts the next attempt.
 */
export async function waitFor(attempt, ask) {
  attempt.check({ parked: true });
  const known = attempt.tickets.get(ask.name);
  const asked = attempt.parked.get(ask.name);
  if (asked) compare(asked, ask);
  if (!known) attempt.park(ask.name, ask);
  if (ask.kind) compare(known, ask);
  if (known.state !== 'open') return known;
  for (const ticket of known.fresh ? [] : await attempt.get('tickets')) attempt.tickets.set(ticket.name, ticket);
  const now = attempt.tickets.get(ask.name);
  attempt.check({ parked: true });
  if (now.state === 'open') attempt.park(ask.name, null);
  return now;
}

/** The row of a question. Throws for what the server would refuse. */
export function question(name, kind, { prompt, action, arguments: args, expires, holds } = {}) {
  checkName(name, 'a ticket');
  for (const [what, text] of [['prompt', prompt], ['action', action]]) {
    if (text === undefined) continue;
    if (typeof text !== 'string') throw invalid(`the ${what} of ticket "${name}" must be a text`);
    checkSize(bytesOf(text), `the ${what} of ticket "${name}"`, limit);
  }
  if (kind === 'timer' && expires === undefined) throw invalid(`sleep "${name}" needs a time or a duration`);
  const given = args === undefined ? undefined : plain(args, `the arguments of ticket "${name}"`, limit);
  return { name, kind, prompt, action, holds: holds || undefined, arguments: given, ...due(expires) };
}

/** The fields that say when a ticket expires: at a time, or a duration after it was opened. */
export function due(when) {
  if (when === undefined) return {};
  if (when instanceof Date) return { expires_at: new Date(when).toISOString() };
  return { after: duration(when) };
}

// A decision belongs to the question that was shown, and to no other one of the same name.
function compare(ticket, ask) {
  if (content(ticket) === content(ask)) return;
  throw conflict(`ticket "${ask.name}" already exists with different content; give the new question another name`);
}

function content({ kind, prompt, action, arguments: args, answers }) {
  return canonical([kind, prompt || null, action || null, args ?? null, answers === true]);
}

/** Commits sends. A send with the answer wait opens a ticket of its name, which the end of the run decides. */
export function send(attempt, sends) {
  for (const { name, options } of sends) {
    checkName(name, 'a send');
    if (options !== undefined) encode(options, `the options of send "${name}"`, limit);
  }
  return attempt.commit({ step: { sends } }, { text: true }).then(() => noteSends(attempt, sends));
}

/** Adds the tickets that committed sends have opened. */
export function noteSends(attempt, sends = []) {
  for (const { name, answer } of sends) {
    if (answer !== 'wait' || attempt.tickets.has(name)) continue;
    attempt.tickets.set(name, { name, kind: 'children', state: 'open', fresh: true });
  }
}
