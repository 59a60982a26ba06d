// Runs a handler for one attempt, and settles it whatever the handler does.

import { MailroomError } from '../errors.js';
import { Failure, isFinal, LeaseLost, messageOf, Stopped } from './errors.js';
import { duration } from './json.js';
import { Session } from './session.js';

const longestMessage = 16_384; // characters

/**
 * Starts an attempt. settled resolves when the attempt has ended, to whether the server has its end or took the claim
 * away. returned resolves when the handler has returned, which may be later. Neither rejects.
 */
export function start(attempt, handler, { grace, log }) {
  const work = handle(attempt, handler);
  const returned = work.then(() => {});
  return { settled: conclude(attempt, work, grace, log), returned };
}

// Resolves to how the handler ended, once all calls that it began have ended too.
async function handle(attempt, handler) {
  await null; // a handler may be a plain function that throws
  try {
    const text = await handler(new Session(attempt));
    await attempt.quiet();
    return { text };
  } catch (error) {
    await attempt.quiet();
    return { error: error ?? new Error('the handler threw no error') };
  }
}

async function conclude(attempt, work, grace, log) {
  const unwatch = attempt.watch();
  const cut = cutOff(attempt.signal, grace);
  try {
    const ended = await Promise.race([work, cut.passed]);
    const body = outcome(attempt, ended);
    const failed = body.outcome === 'fail' && !attempt.signal.aborted;
    if (failed) log.error('attempt failed', { error: ended.error ?? body.failure.message });
    if (ended.forced) log.warn('handler did not return in time; its slot stays taken until it does', { grace });
    if (attempt.lost) throw attempt.signal.reason;
    await settle(attempt, body, ended, log);
    log.debug('attempt settled', { outcome: body.outcome });
    return true;
  } catch (error) {
    const lost = attempt.lost || error instanceof LeaseLost || error.code === 'lease_lost';
    if (lost) log.warn('claim lost; another attempt goes on', { reason: messageOf(error) });
    else log.error('attempt could not be settled; its claim is given back', { error });
    return lost && !attempt.unsure;
  } finally {
    attempt.over = true;
    unwatch();
    cut.clear();
  }
}

/** Returns a promise that resolves a grace after signal was aborted, and a function that cancels the timer. */
function cutOff(signal, grace) {
  let timer;
  let begin;
  const passed = new Promise((resolve) => {
    begin = () => { timer = setTimeout(() => resolve({ forced: true, error: signal.reason }), grace); };
    if (signal.aborted) begin();
    else signal.addEventListener('abort', begin, { once: true });
  });
  const clear = () => {
    clearTimeout(timer);
    signal.removeEventListener('abort', begin);
  };
  return { passed, clear };
}

/** The body that settles an attempt, from how its handler ended. */
function outcome(attempt, { text, error, forced }) {
  const { reason } = attempt.signal;
  const forGood = error instanceof Failure && error.class === 'permanent' && !forced; // a raised budget would change nothing
  if (error !== undefined && reason instanceof Stopped && !forGood) return { outcome: 'release', entered: true, forced };
  if (reason instanceof MailroomError) return failure(reason, forced); // the text is refused, so the reply would be incomplete
  if (attempt.parked.size > 0 && !forced) return park(attempt.parked);
  if (error !== undefined) return failure(attempt.signal.aborted && !forGood ? reason : error, forced);
  if (text === undefined || text === null || typeof text === 'string') return { outcome: 'complete' };
  const what = `the handler returned a value of type ${typeof text}; return a text, or write and return nothing`;
  return failure(new Failure(what, { class: 'permanent' }));
}

// The first decision starts the next attempt: with several questions it may be all that the handler needs.
function park(parked) {
  const asks = [...parked.values()].filter(Boolean);
  const wait = { names: [...parked.keys()], any: parked.size > 1 || undefined };
  return { outcome: 'wait', wait, tickets: asks.length > 0 ? asks : undefined };
}

function failure(error, forced) {
  const again = error instanceof MailroomError && isFinal(error) ? 'permanent' : 'transient';
  const kind = error instanceof Failure ? error : new Failure('', { class: again });
  const message = messageOf(error).replaceAll('\0', '').slice(0, longestMessage) || 'failed';
  const retry = kind.retryAfter > 0 ? duration(kind.retryAfter) : undefined;
  const body = { message, class: kind.class, retry_after: retry, agent: kind.agent || undefined };
  return { outcome: 'fail', forced, failure: body };
}

// If the server refuses the settle, it becomes a failure, which is counted and visible. If the server refuses that too,
// the failure is sent without the text.
async function settle(attempt, body, { text }, log) {
  const draft = attempt.close();
  if (body.outcome === 'complete' && text) draft.write(text.replaceAll('\0', '\ufffd'));
  try {
    await attempt.settle(body, draft);
  } catch (error) {
    if (!isFinal(error)) throw error;
    log.error('settle refused', { error });
    const refused = failure(new Error(`settle refused: ${error.message}`));
    await attempt.settle(refused, draft).catch((again) => {
      if (!isFinal(again)) throw again;
      return attempt.settle(refused);
    });
  }
}
