// The decisions that a person makes on these pages. Each waits for some seconds before it is sent, and can be undone
// until then. A page that is left or put to sleep sends nothing afterwards: a question that stays open is harmless,
// an approval that its person no longer expects is not.

import { effect, signal } from '../vendor/preact.js';
import { decideSoon } from '../chat/decision.js';
import { cut } from '../chat/text.js';
import { client, user } from './account.js';
import { number } from './words.js';

const WAIT = 5_000; // milliseconds in which a decision can be undone
const LATE = 8_000; // a timer that fires later than this was stopped with its page or its machine
const AT_ONCE = 4; // requests
const SHOWN = 10_000; // milliseconds for which a success is shown
const MOST = 20; // outcomes that are kept
const NOTE = 'mailroom.unsent'; // what was dropped when a page was left, for the next page of this browser: { count, by }
const LEFT = 'because the page was left before the time to undo was over';

/** The kinds of tickets that a person can decide, and how they are called. */
export const TITLES = { approval: 'Approval', input: 'Question', event: 'Event' };

/** What a decision is called once it is made. */
export const DONE = { approve: 'Approved', deny: 'Denied', answer: 'Answered' };

/** What a decision is called while it waits. */
export const DOING = { approve: 'Approving', deny: 'Denying', answer: 'Answering' };

/**
 * The decisions that were not answered yet, the oldest first: { key, decision, tickets, left, text, due, sending, sent }.
 * One has several tickets if they are decided together; left are those that were not sent, and sent is the number of
 * those that were answered.
 */
export const waiting = signal([]);

/** How decisions ended, the newest last: { key, good, text, failed }. failed has { ticket, why } for each that failed. */
export const outcomes = signal([]);

/** The number of decisions that were dropped unsent, why, and whose: { count, why, by }, null if there are none. */
export const unsent = signal(null);

/** What a screen reader says about the last step. */
export const said = signal('');

/** What the person has to do first, '' most of the time. */
export const advice = signal('');

/** How questions were decided, by id: a list may still have them until it is read again. */
export const over = signal(new Map());

const timers = new Map(); // key: timer of a decision that waits
let last = 0; // the last key
let advising = null; // timer of the advice

/** What a question is called in one line, with its beginning if it is long. */
export const titleOf = ({ prompt, action, name }) => cut(prompt ?? action ?? name, 160);

/** The decision on a ticket that was not answered yet, undefined without one. */
export const waitingFor = (id) => waiting.value.find(({ tickets }) => tickets.some((ticket) => ticket.id === id));

/**
 * Decides tickets in some seconds, each with the digest of what was shown, so that a question that has changed is
 * refused. It leaves out tickets about which a decision waits. text is the answer, or a reason. Nothing is repeated
 * for the person who presses twice.
 */
export function decide(tickets, decision, text = '') {
  const chosen = tickets.filter(({ id }) => !waitingFor(id) && !over.value.has(id));
  if (chosen.length === 0) return;
  const made = { key: ++last, decision, tickets: chosen, left: [...chosen], text, due: Date.now() + WAIT, sending: false, sent: 0, client, by: user.value };
  waiting.value = [...waiting.value, made];
  timers.set(made.key, setTimeout(() => send(made.key), WAIT));
  said.value = `${DOING[decision]} ${nameOf(chosen)} in 5 seconds. Press u to undo.`;
}

/** Undoes a decision, or the last one, unless it is being sent. It returns the decision, undefined without one. */
export function undo(key = waiting.value.findLast(({ sending }) => !sending)?.key) {
  const made = waiting.value.find((one) => one.key === key && !one.sending);
  if (!made) return undefined;
  remove(made.key);
  said.value = `Undone: ${nameOf(made.tickets)} ${made.tickets.length === 1 ? 'is' : 'are'} still open.`;
  return made;
}

/** Shows an advice for some seconds. */
export function advise(text) {
  advice.value = text;
  clearTimeout(advising);
  advising = setTimeout(() => { advice.value = ''; }, WAIT);
}

/** Hides an outcome. */
export function dismiss(key) { outcomes.value = outcomes.value.filter((one) => one.key !== key); }

/** Several tickets as a number, one with its title. */
export const nameOf = (tickets) => (tickets.length === 1 ? `“${titleOf(tickets[0])}”` : `${number(tickets.length)} questions`);

function remove(key) {
  clearTimeout(timers.get(key));
  timers.delete(key);
  waiting.value = waiting.value.filter((one) => one.key !== key);
}

function change(key, values) {
  waiting.value = waiting.value.map((one) => (one.key === key ? { ...one, ...values } : one));
}

async function send(key) {
  const made = waiting.value.find((one) => one.key === key);
  if (!made) return;
  if (Date.now() - made.due > LATE) {
    drop(`because the page slept before the time to undo ${made.tickets.length === 1 ? 'it' : 'them'} was over`, [made]);
    return;
  }
  change(key, { sending: true });
  const results = [];
  let stop = null; // why the rest is not sent
  const work = async () => {
    for (let ticket = made.left.shift(); ticket; ticket = made.left.shift()) {
      const begun = Date.now();
      const result = stop ? { ticket, why: `Not sent: ${stop}` } : await sendOne(made, ticket);
      if (result.stop) stop ??= result.why;
      else if (Date.now() - begun > 3 * LATE) stop ??= 'the page slept.';
      results.push(result);
      change(key, { sent: results.length });
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, work));
  remove(key);
  said.value = ''; // the outcome says the rest
  if (user.value === made.by) tell(made, results);
}

// sendOne sends one decision of several. It returns { ticket, by, why, stop }: by says how the question ended; without
// it, why says what went wrong, and the question is open. With stop, others would fail too.
async function sendOne({ client: sender, decision, text }, ticket) {
  const { id, digest } = ticket;
  try {
    const now = await decideSoon(sender, id, { decision, digest, ...(decision === 'answer' ? { answer: text } : { reason: text || undefined }) });
    return now.decision === decision ? { ticket, by: decision } : { ticket, by: now.state, why: words(now) };
  } catch (error) {
    if (error.code !== 'conflict' && error.code !== 'gone') return { ticket, why: error.detail ?? error.message, stop: !error.code || error.passing || error.code === 'unauthenticated' };
    const now = await sender.ticket(id, { signal: AbortSignal.timeout(LATE) }).catch(() => null);
    if (!now) return { ticket, why: error.detail };
    if (now.state === 'open') return { ticket, why: now.digest === digest ? error.detail : 'It has changed since it was shown, so the decision was refused. Review it again.' };
    return { ticket, by: now.state, why: words(now) };
  }
}

// words tells how a ticket ended that was not decided here.
function words({ state, decision, decided_by: by }) {
  if (state === 'expired') return 'It has expired.';
  if (state === 'void') return 'Its run has ended.';
  return `${DONE[decision]} by ${by} before you.`;
}

// tell adds the outcome of a decision that was sent.
function tell({ decision, tickets, key }, results) {
  over.value = new Map([...over.value, ...results.filter(({ by }) => by).map(({ ticket, by, why }) => [ticket.id, why ?? `${DONE[by]}.`])].slice(-5_000));
  const failed = results.filter(({ why }) => why);
  const done = results.length - failed.length;
  const open = failed.filter(({ by }) => !by).length;
  const good = open === 0 && (done === tickets.length || tickets.length === 1);
  const text = tickets.length > 1
    ? `${done === tickets.length ? number(done) : `${number(done)} of ${number(tickets.length)}`} ${DONE[decision].toLowerCase()}: ${titleOf(tickets[0])}${open > 0 ? ` (${number(open)} ${open === 1 ? 'stays' : 'stay'} open)` : ''}`
    : failed[0]?.why ?? `${DONE[decision]}: ${titleOf(tickets[0])}`;
  outcomes.value = [...outcomes.value, { key, good, text, failed: tickets.length > 1 ? failed : [] }].slice(-MOST);
  if (done === tickets.length) setTimeout(dismiss, SHOWN, key);
}

// drop ends decisions, or the parts of them, that were not sent.
function drop(why, dropped = waiting.value) {
  let count = 0;
  let by;
  for (const { key, left, sending, by: maker } of dropped) {
    count += left.splice(0).length;
    by = maker?.token;
    if (!sending) remove(key);
  }
  if (count > 0) unsent.value = { count: count + (unsent.value?.count ?? 0), why, by };
  return count;
}

/** Hides that decisions were not sent. */
export function forget() { unsent.value = null; }

// Another user must not send what this one decided, nor read it.
let who = null;
effect(() => {
  const now = user.value;
  if (now === who) return;
  const same = who?.token === now?.token;
  who = now;
  queueMicrotask(() => { // an effect that writes what it reads would run again
    if (who !== now) return;
    drop('because you were signed out');
    said.value = '';
    if (!same) outcomes.value = [];
    if (now) recall(now.token);
  });
});

// recall tells a user what was dropped when a page was left. A tab that is closed cannot say it.
function recall(token) {
  if (unsent.value && unsent.value.by !== token) forget();
  const { count, by } = JSON.parse(localStorage.getItem(NOTE) ?? '{}');
  if (by !== token) return;
  localStorage.removeItem(NOTE);
  if (count > 0) unsent.value = { count, why: LEFT, by };
}

addEventListener('beforeunload', (event) => {
  if (waiting.value.length > 0) event.preventDefault(); // the browser asks whether to leave
});

addEventListener('pagehide', () => {
  const by = user.value?.token;
  const count = drop(LEFT);
  if (count > 0 && by) localStorage.setItem(NOTE, JSON.stringify({ count, by }));
});

// A page that the browser has kept says itself what it dropped.
addEventListener('pageshow', ({ persisted }) => persisted && localStorage.removeItem(NOTE));
