// Follows a thread or a run across reconnects.

import { strange, unanswered } from './answer.js';
import { MailroomError } from './errors.js';
import { Pauses } from './pause.js';

// A stream without a byte for this long is dead: three heartbeats of the server.
const IDLE_TIMEOUT = 35_000;

const ENDS = { 'run.completed': 'completed', 'run.failed': 'failed', 'run.cancelled': 'cancelled' };

/**
 * Implements Mailroom.follow, and Mailroom.followAll with an empty query. One call is one reader. Each connection is
 * one call of the socket's frames() or of serverSent().
 */
export async function* followed({ client, socket, open, alarm, query, after, signal, onState }) {
  const position = query.thread || query.run ? new Position(after) : new AllPosition(after);
  const pauses = new Pauses();
  let found = false; // a Mailroom server has answered before: then another program in its place may go away again
  while (!signal?.aborted) {
    onState('connecting');
    const source = socket(); // looked up each time: sockets are disabled if a proxy blocks them
    const before = position.cursor;
    let error = new MailroomError('unavailable', 'the server closed the stream');
    try {
      const frames = source ? source.frames(query, position.cursor, signal) : serverSent(client, open, position.cursor, signal);
      for await (const frame of frames) {
        if (signal?.aborted || frame.kind === 'end') return;
        found = true;
        if (frame.kind !== 'live') pauses.reset();
        yield* position.take(frame);
        if (frame.kind === 'live') onState('live');
        if (source && query.until && decisive(frame) && await reached(client, query, position.seq, signal)) return;
      }
      if (signal?.aborted) return;
      if (position.cursor !== before) continue; // a clean close after progress: reconnect at once
    } catch (thrown) {
      if (signal?.aborted) return;
      if (!(thrown instanceof MailroomError) || !mayPass(thrown, found)) throw thrown;
      error = thrown;
    }
    if (error.behind) continue;
    onState('waiting', error);
    if (error.lost) await source.pause(signal);
    else await alarm.sleep(pauses.next(error.retryAfter), signal);
  }
}

function mayPass(error, found) { return error.passing || error.code === 'internal' || (found && error.misplaced); }

// AllPosition tracks the position of a reader of all threads. Its server never repeats an entry.
class AllPosition {
  constructor(after) { this.cursor = after; }

  * take(frame) {
    if (frame.cursor) this.cursor = frame.cursor;
    if (frame.kind !== 'live' && frame.kind !== 'position') yield frame;
  }
}

// Position tracks a reader's position: it drops repeated entries and reports the end of runs.
class Position {
  constructor(after) {
    const [whole, seq] = /^(\d+)(?::\d+)?$/.exec(after) ?? [];
    if (whole === undefined) throw new MailroomError('invalid', `"${after}" is not a position in a stream: give a seq, or a cursor`);
    this.cursor = after;
    this.seq = Number(seq);
  }

  * take({ kind, cursor, entry, delta, gap }) {
    if (kind === 'live' || kind === 'position') return;
    if (kind === 'entry' && entry.seq <= this.seq) return;
    this.cursor = cursor;
    if (kind === 'entry') {
      this.seq = entry.seq;
      yield { kind, cursor, entry };
      if (ENDS[entry.kind]) yield { kind: 'settled', cursor, run: entry.run, status: ENDS[entry.kind] };
    } else if (kind === 'delta') {
      yield { kind, cursor, delta };
    } else if (kind === 'gap') {
      if (gap.after > gap.last) this.seq = gap.last; // the cursor was ahead of the log: smaller seqs are new
      yield { kind, cursor, gap };
    }
  }
}

// A socket has no until parameter, so events that may satisfy it trigger a check.
const decisive = ({ kind, entry }) => kind === 'live' || kind === 'entry' && (entry.kind in ENDS || entry.kind === 'run.waiting');

// Whether a reader that has everything up to seq has reached until.
async function reached(client, { thread, run, until }, seq, signal) {
  if (run) {
    if (until === 'settled') return false; // the server ends the subscription
    const { status } = await client.run(run, { signal });
    return status === 'waiting' && seq > 0;
  }
  const now = await client.thread(thread, { signal });
  return now.last_seq <= seq && (now.status === 'idle' || until === 'waiting' && now.status === 'waiting');
}

/** The frames of one connection of server-sent events. */
async function* serverSent(client, open, cursor, signal) {
  const stop = new AbortController();
  const abort = () => stop.abort();
  signal?.addEventListener('abort', abort);
  let idle = setTimeout(abort, IDLE_TIMEOUT);
  let reader;
  try {
    const response = await open({ Accept: 'text/event-stream', ...(cursor && { 'Last-Event-ID': cursor }) }, stop.signal);
    if (response.status === 204) {
      yield { kind: 'end' };
      return;
    }
    const type = response.headers.get('Content-Type') ?? '';
    if (!type.startsWith('text/event-stream')) throw strange(response.status, client.url);
    yield { kind: 'live' };
    reader = response.body.getReader();
    const parser = new Parser();
    for (;;) {
      let piece;
      try {
        piece = await reader.read();
      } catch (cause) {
        throw unanswered(cause, client.url);
      }
      clearTimeout(idle); // the time that the caller takes for the events does not count
      if (piece.done) return;
      yield* parser.take(piece.value);
      idle = setTimeout(abort, IDLE_TIMEOUT);
    }
  } finally {
    clearTimeout(idle);
    signal?.removeEventListener('abort', abort);
    stop.abort();
    reader?.cancel().catch(() => {}); // it may have failed already
  }
}

/** Parses server-sent events from chunks of bytes. */
export class Parser {
  #decoder = new TextDecoder();
  #rest = ''; // an incomplete line
  #name = '';
  #id = '';
  #data = null;

  * take(bytes) {
    const lines = (this.#rest + this.#decoder.decode(bytes, { stream: true })).split('\n');
    this.#rest = lines.pop();
    for (const raw of lines) {
      const line = raw.endsWith('\r') ? raw.slice(0, -1) : raw;
      if (line === '') yield* this.#dispatch();
      else if (!line.startsWith(':')) this.#field(line);
    }
  }

  #field(line) {
    const colon = line.indexOf(':');
    const name = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? '' : line.slice(line[colon + 1] === ' ' ? colon + 2 : colon + 1);
    if (name === 'event') this.#name = value;
    else if (name === 'id') this.#id = value;
    else if (name === 'data') this.#data = this.#data === null ? value : `${this.#data}\n${value}`;
  }

  * #dispatch() {
    const [name, cursor, data] = [this.#name, this.#id, this.#data];
    this.#name = this.#id = '';
    this.#data = null;
    // Ignore events that a newer server adds.
    if (data === null && cursor) yield { kind: 'position', cursor };
    if (data !== null && (name === 'entry' || name === 'delta' || name === 'gap')) yield { kind: name, cursor, [name]: JSON.parse(data) };
  }
}
