// One WebSocket for all that one client follows: browsers open few connections
// to a host, and each stream over HTTP would take one of them for good.

import { MailroomError, refusal } from './errors.js';
import { Pauses, unlessAborted } from './pause.js';

const PING = 10_000; // a ping that is not answered by the next one: the connection is dead
const PROBE = 3_000; // the same, when there is reason for doubt
const LINGER = 1_000; // an unused socket stays open for whoever follows the next thread
const MOST = 10_000; // frames that a reader may be behind before its subscription is given back

export class Socket {
  usable = true; // false: nothing on the way lets sockets through

  #url;
  #token;
  #WebSocket;
  #alarm;
  #reachable;
  #pauses = new Pauses();

  #socket = null; // that let us in
  #dialling = null; // promise of the next one
  #pausing = null; // promise of the end of the pause before it
  #asked = new Map(); // id → what to do with the answer
  #inboxes = new Map(); // sub → Inbox
  #id = 0;
  #users = 0;
  #heard = true; // since the last ping
  #beat;
  #linger;
  #opened = false; // one was let in, once
  #doubt = false; // the server answered after a socket failed

  constructor({ url, token, WebSocket, alarm, reachable }) {
    this.#url = new URL('v1/ws', url);
    this.#url.protocol = this.#url.protocol === 'https:' ? 'wss:' : 'ws:';
    this.#token = token;
    this.#WebSocket = WebSocket;
    this.#alarm = alarm;
    this.#reachable = reachable;
  }

  /** The frames of one subscription, until it or the socket ends. */
  async* frames({ thread, run }, after, signal) {
    const inbox = new Inbox(run !== undefined);
    this.#users++;
    try {
      await unlessAborted(this.#ready(), signal);
      await unlessAborted(this.#ask({ op: 'subscribe', thread, run, after }, inbox), signal);
      yield { kind: 'live' };
      for (;;) yield await inbox.next(signal);
    } finally {
      this.#leave(inbox);
      this.#users--;
      this.#rest();
    }
  }

  /** Waits before the next try. Those who lost the same socket wait together. */
  pause(signal) {
    this.#pausing ??= this.#alarm.sleep(this.#pauses.next()).then(() => { this.#pausing = null; });
    return unlessAborted(this.#pausing, signal).catch(() => {}); // aborted: the caller looks
  }

  /** Looks whether the open socket still lives, for example after the machine slept. */
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
        const patience = setTimeout(() => reject(lost('the server did not let the socket in')), PING);
        const settle = (f) => (value) => { clearTimeout(patience); f(value); };
        socket.onopen = () => this.#send(socket, { op: 'auth', id: 'auth', token: this.#token ?? '' });
        socket.onmessage = ({ data }) => {
          const frame = JSON.parse(data);
          if (frame.id !== 'auth') return;
          if (frame.op === 'ack') settle(resolve)();
          else settle(reject)(refused(frame));
        };
        socket.onclose = ({ code, reason }) => settle(reject)(closed(code, reason));
        socket.onerror = () => settle(reject)(lost('no connection to the server')); // Node tells of no close then
      });
    } catch (error) {
      discard(socket);
      if (error.lost && !this.#opened) await this.#wonder();
      throw error;
    }
    this.#opened = true;
    this.#pauses.reset();
    this.#socket = socket;
    socket.onmessage = ({ data }) => this.#frame(JSON.parse(data));
    socket.onclose = ({ code, reason }) => this.#gone(closed(code, reason));
    socket.onerror = () => this.#gone(lost('the connection broke'));
    this.#heard = true;
    this.#tick();
    this.#rest(); // whoever asked for it may have gone
  }

  // A server that answers before and after a socket failed, twice, is behind
  // something that lets no socket through.
  async #wonder() {
    const reachable = await this.#reachable();
    if (reachable && this.#doubt) this.usable = false;
    this.#doubt = reachable;
  }

  #tick() {
    if (!this.#heard) {
      this.#gone(lost('the server fell silent'));
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
    if (socket.readyState === 1) socket.send(JSON.stringify(frame)); // else its close is on the way
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
          asked.resolve(frame.result);
        }
        return;
      }
      case 'entry':
      case 'delta':
      case 'gap':
        if (inbox && !inbox.put({ kind: op, cursor, [op]: frame[op] })) this.#unsubscribe(sub);
        return;
      case 'settled':
        if (inbox?.ofRun) inbox.put({ kind: 'end' });
    }
  }

  #subscribed(sub, inbox) {
    if (inbox.left) { // its reader went while the answer was on the way
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

  // An unused socket is closed after a while.
  #rest() {
    clearTimeout(this.#linger);
    this.#linger = setTimeout(() => {
      if (this.#users === 0) this.#gone(lost('nobody follows anything'));
    }, LINGER);
  }

  // The socket is over: whoever uses it has to make the next one.
  #gone(error) {
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

/** Inbox holds the frames of one subscription until its reader takes them. */
class Inbox {
  sub;
  left = false; // its reader went

  #frames = [];
  #wake = () => {};
  #error = null;

  constructor(ofRun) { this.ofRun = ofRun; }

  /** Takes a frame, unless the reader is too far behind; then it gets what is here and must subscribe again. */
  put(frame) {
    this.#frames.push(frame);
    if (this.#frames.length >= MOST) this.#error = behind();
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

// discard closes a socket of which nothing more is wanted to be heard.
function discard(socket) {
  socket.onopen = socket.onmessage = socket.onclose = socket.onerror = null;
  socket.close();
}

function lost(detail) {
  return Object.assign(new MailroomError('unavailable', detail), { lost: true });
}

// behind: it can go on at once, from where it was.
function behind() {
  return Object.assign(new MailroomError('unavailable', 'the reader was too slow and goes on from its cursor'), { behind: true });
}

function refused({ error, retry_after: seconds = 0 }) {
  return refusal(error, { retryAfter: 1000 * seconds });
}

function closed(code, reason) {
  if (code === 4401) return new MailroomError('unauthenticated', reason || 'the server does not accept this token (any more)', { status: 401 });
  if (code === 4408) return behind();
  return lost(`the connection was lost (${code}${reason && `, ${reason}`})`);
}
