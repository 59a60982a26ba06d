// One WebSocket for all streams of a client: browsers limit the connections per host,
// and each stream over HTTP would occupy one.

import { MailroomError, refusal } from './errors.js';
import { Pauses, unlessAborted } from './pause.js';

const PING = 10_000; // interval of pings; a ping without an answer until the next one means a dead connection
const PROBE = 3_000; // how long probe() waits for the answer to its ping
const LINGER = 1_000; // an unused socket stays open for the next stream
const MAX_FRAMES = 10_000; // buffered frames of a slow reader before its subscription ends

export class Socket {
  usable = true; // false: a proxy blocks sockets

  #url;
  #auth; // the first frame's token or session
  #WebSocket;
  #alarm;
  #reachable;
  #pauses = new Pauses();

  #socket = null; // authenticated
  #dialling = null; // promise of the next one
  #pausing = null; // promise of the end of the pause before the next dial
  #asked = new Map(); // id → handlers of the answer
  #inboxes = new Map(); // sub → Inbox
  #id = 0;
  #users = 0;
  #heard = true; // a frame has arrived since the last ping
  #beat;
  #linger;
  #opened = false; // a socket has been authenticated before
  #doubt = false; // the server answered HTTP after the last socket failed

  constructor({ url, token, session, WebSocket, alarm, reachable }) {
    this.#url = new URL('v1/ws', url);
    this.#url.protocol = this.#url.protocol === 'https:' ? 'wss:' : 'ws:';
    this.#auth = session && !token ? { session } : { token: token ?? '' };
    this.#WebSocket = WebSocket;
    this.#alarm = alarm;
    this.#reachable = reachable;
  }

  /** The frames of a thread, a run or, without both, of all threads, until the subscription or the socket ends. */
  async* frames({ thread, run }, after, signal) {
    const inbox = new Inbox(run !== undefined);
    this.#users++;
    try {
      await unlessAborted(this.#ready(), signal);
      const { cursor } = await unlessAborted(this.#ask({ op: 'subscribe', thread, run, after: after || undefined }, inbox), signal);
      yield { kind: 'live', cursor };
      for (;;) yield await inbox.next(signal);
    } finally {
      this.#leave(inbox);
      this.#users--;
      this.#closeWhenIdle();
    }
  }

  /** Waits before the next attempt. All readers of a lost socket share the pause. */
  pause(signal) {
    this.#pausing ??= this.#alarm.sleep(this.#pauses.next()).then(() => { this.#pausing = null; });
    return unlessAborted(this.#pausing, signal).catch(() => {}); // the caller checks for the abort
  }

  /** Checks the open socket, for example after the machine slept. */
  probe() {
    if (!this.#socket) return;
    this.#ping();
    clearTimeout(this.#beat);
    this.#beat = setTimeout(() => this.#tick(), PROBE);
  }

  #ready() {
    if (this.#socket) return Promise.resolve();
    this.#dialling ??= this.#dial().finally(() => { this.#dialling = null; });
    return this.#dialling;
  }

  async #dial() {
    const socket = new this.#WebSocket(this.#url);
    try {
      await new Promise((resolve, reject) => {
        const timeout = setTimeout(() => reject(lost('the server did not authenticate the socket in time')), PING);
        const settle = (f) => (value) => { clearTimeout(timeout); f(value); };
        socket.onopen = () => this.#send(socket, { op: 'auth', id: 'auth', ...this.#auth });
        socket.onmessage = ({ data }) => {
          const frame = JSON.parse(data);
          if (frame.id !== 'auth') return;
          if (frame.op === 'ack') settle(resolve)();
          else settle(reject)(refused(frame));
        };
        socket.onclose = ({ code, reason }) => settle(reject)(closed(code, reason));
        socket.onerror = () => settle(reject)(lost('no connection to the server')); // Node emits no close event then
      });
    } catch (error) {
      discard(socket);
      if (error.lost && !this.#opened) await this.#checkProxy();
      throw error;
    }
    this.#opened = true;
    this.#pauses.reset();
    this.#socket = socket;
    socket.onmessage = ({ data }) => this.#frame(JSON.parse(data));
    socket.onclose = ({ code, reason }) => this.#onClose(closed(code, reason));
    socket.onerror = () => this.#onClose(lost('the connection broke'));
    this.#heard = true;
    this.#tick();
    this.#closeWhenIdle(); // its first reader may be gone already
  }

  // If the server answers HTTP requests while sockets fail twice, a proxy blocks sockets.
  async #checkProxy() {
    const reachable = await this.#reachable();
    if (reachable && this.#doubt) this.usable = false;
    this.#doubt = reachable;
  }

  #tick() {
    if (!this.#heard) {
      this.#onClose(lost('the server did not answer a ping'));
      return;
    }
    this.#ping();
    this.#beat = setTimeout(() => this.#tick(), PING);
  }

  #ping() {
    this.#heard = false;
    this.#send(this.#socket, { op: 'ping', id: 'ping' });
  }

  #send(socket, frame) {
    if (socket.readyState === 1) socket.send(JSON.stringify(frame)); // else its close event follows
  }

  #ask(frame, inbox) {
    const id = ++this.#id;
    return new Promise((resolve, reject) => {
      this.#asked.set(id, { resolve, reject, inbox });
      this.#send(this.#socket, { ...frame, id });
    });
  }

  #frame(frame) {
    this.#heard = true;
    const { op, id, sub, cursor } = frame;
    const inbox = this.#inboxes.get(sub);
    switch (op) {
      case 'ack':
      case 'error': {
        const asked = this.#asked.get(id);
        this.#asked.delete(id);
        if (op === 'error' && inbox) {
          this.#inboxes.delete(sub);
          inbox.fail(refused(frame));
        } else if (op === 'error') {
          asked?.reject(refused(frame));
        } else if (asked) {
          if (asked.inbox) this.#subscribed(sub, asked.inbox);
          asked.resolve(frame);
        }
        return;
      }
      case 'delta':
        if (frame.thread) frame.delta.thread = frame.thread; // as in server-sent events of all threads
        // falls through
      case 'entry':
      case 'gap':
        if (inbox && !inbox.put({ kind: op, cursor, [op]: frame[op] })) this.#unsubscribe(sub);
        return;
      case 'settled':
        if (inbox?.ofRun) inbox.put({ kind: 'end' });
    }
  }

  #subscribed(sub, inbox) {
    if (inbox.left) { // the reader left before the answer came
      this.#send(this.#socket, { op: 'unsubscribe', id: ++this.#id, sub });
      return;
    }
    inbox.sub = sub;
    this.#inboxes.set(sub, inbox);
  }

  #unsubscribe(sub) {
    this.#inboxes.delete(sub);
    this.#send(this.#socket, { op: 'unsubscribe', id: ++this.#id, sub });
  }

  #leave(inbox) {
    inbox.left = true;
    if (this.#inboxes.get(inbox.sub) === inbox) this.#unsubscribe(inbox.sub);
  }

  #closeWhenIdle() {
    clearTimeout(this.#linger);
    this.#linger = setTimeout(() => {
      if (this.#users === 0) this.#onClose(lost('no stream uses the socket'));
    }, LINGER);
  }

  // Fails all streams of the socket; each of them reconnects.
  #onClose(error) {
    const socket = this.#socket;
    if (!socket) return;
    this.#socket = null;
    clearTimeout(this.#beat);
    discard(socket);
    const [inboxes, asked] = [[...this.#inboxes.values()], [...this.#asked.values()]];
    this.#inboxes.clear();
    this.#asked.clear();
    for (const inbox of inboxes) inbox.fail(error);
    for (const { reject } of asked) reject(error);
  }
}

/** Inbox buffers the frames of one subscription. */
class Inbox {
  sub;
  left = false; // the reader left

  #frames = [];
  #wake = () => {};
  #error = null;

  constructor(ofRun) { this.ofRun = ofRun; }

  /** Buffers a frame. False: the buffer is full, and the reader must subscribe again after it. */
  put(frame) {
    this.#frames.push(frame);
    if (this.#frames.length >= MAX_FRAMES) this.#error = behind();
    this.#wake();
    return this.#error === null;
  }

  fail(error) {
    this.#error ??= error;
    this.#wake();
  }

  async next(signal) {
    while (this.#frames.length === 0) {
      if (this.#error) throw this.#error;
      await unlessAborted(new Promise((resolve) => { this.#wake = resolve; }), signal);
    }
    return this.#frames.shift();
  }
}

// discard closes a socket and ignores its further events.
function discard(socket) {
  socket.onopen = socket.onmessage = socket.onclose = socket.onerror = null;
  socket.close();
}

function lost(detail) {
  return Object.assign(new MailroomError('unavailable', detail), { lost: true });
}

// behind is the error of a slow reader, which resumes at once from its cursor.
function behind() {
  return Object.assign(new MailroomError('unavailable', 'the reader was too slow and resumes from its cursor'), { behind: true });
}

function refused({ error, retry_after: seconds = 0 }) {
  return refusal(error, { retryAfter: 1000 * seconds });
}

function closed(code, reason) {
  if (code === 4401) return new MailroomError('unauthenticated', reason || 'the server does not accept this token', { status: 401 });
  if (code === 4408) return behind();
  return lost(`the connection was lost (${code}${reason && `, ${reason}`})`);
}
