// The message that an attempt is writing, and what is shown beside it.

import { invalid } from './errors.js';
import { bytesOf, MiB, wellFormed } from './json.js';

const limit = MiB; // bytes of one message, and of what is shown beside it

/**
 * A text that arrives in pieces and is sent in pieces, with its offsets in bytes. A piece may end within a surrogate
 * pair: that half waits for the next one.
 */
class Flow {
  text = '';
  #half = '';
  #bytes = 0;

  /** Adds a piece as far as room bytes allow, and returns the bytes that it took; fewer than it has are a cut. */
  add(piece, room) {
    let text = this.#half + piece;
    this.#half = /[\ud800-\udbff]$/.test(text) ? text.slice(-1) : '';
    text = wellFormed(this.#half ? text.slice(0, -1) : text);
    const bytes = bytesOf(text);
    if (bytes > room) text = cut(text, room);
    this.text += text;
    const taken = bytes > room ? bytesOf(text) : bytes;
    this.#bytes += taken;
    return { taken, whole: bytes <= room };
  }

  /** Ends it: a half that stayed alone becomes U+FFFD. */
  end(room) {
    if (!this.#half) return 0;
    this.#half = '';
    return this.add('\ufffd', room).taken;
  }

  /** Where the text ends now. */
  get mark() { return { at: this.text.length, bytes: this.#bytes }; }
}

/** The longest beginning of a text that has at most that many bytes of UTF-8 and ends between characters. */
function cut(text, bytes) {
  const { read } = new TextEncoder().encodeInto(text, new Uint8Array(bytes));
  return text.slice(0, read);
}

const start = { at: 0, bytes: 0 };

/** One message. Once a step has taken it, what is written belongs to the next one. */
export class Draft {
  truncated = false;
  /** The message that has this one's text since its step was refused. */
  into = null;
  #flow = new Flow();
  #shown = start; // up to here readers have it
  #stored = start; // up to here the server has it
  #beside = new Map(); // by channel and call: { channel, call, name, flow, shown }
  #room = limit;
  #roomBeside = limit;

  get text() { return this.#flow.text; }

  write(text) {
    if (this.truncated) return; // nothing follows a cut
    const { taken, whole } = this.#flow.add(text, this.#room);
    this.#room -= taken;
    if (!whole) this.truncated = true;
  }

  /** Adds to what is shown beside the message; what exceeds its limit is not shown. */
  show(text, channel, call, name) {
    const key = `${channel} ${call ?? ''}`;
    let beside = this.#beside.get(key);
    if (!beside) this.#beside.set(key, beside = { channel, call, name, flow: new Flow(), shown: start });
    this.#roomBeside -= beside.flow.add(text, this.#roomBeside).taken;
  }

  end() { this.#room -= this.#flow.end(this.#room); }

  /** Characters that readers do not have yet. */
  get behind() {
    let count = this.#flow.mark.at - this.#shown.at;
    for (const { flow, shown } of this.#beside.values()) count += flow.mark.at - shown.at;
    return count;
  }

  get unstored() { return this.#flow.mark.at > this.#stored.at; }

  /** The next text to store. Sending it again before an answer came is harmless. */
  toStore() {
    const mark = this.#flow.mark;
    const body = { offset: this.#stored.bytes, text: this.text.slice(this.#stored.at, mark.at) };
    this.#shown = mark;
    return { body, stored: () => { this.#stored = mark; } };
  }

  /** What is new to readers, as bodies of deltas; with text or only what is beside it. */
  toShow(withText) {
    const bodies = [];
    for (const beside of this.#beside.values()) {
      const { channel, call, name, flow, shown } = beside;
      beside.shown = flow.mark;
      const text = flow.text.slice(shown.at);
      if (text) bodies.push({ channel, call, name, offset: shown.bytes, text });
    }
    const mark = this.#flow.mark;
    if (withText && mark.at > this.#shown.at) {
      bodies.push({ offset: this.#shown.bytes, text: this.text.slice(this.#shown.at), live: true });
      this.#shown = mark;
    }
    return bodies;
  }
}

/** Throws for what cannot be text of a message. */
export function checkText(text, what) {
  if (typeof text !== 'string') throw invalid(`${what} must be a text, not ${text === null ? 'null' : typeof text}`);
  if (text.includes('\0')) throw invalid(`${what} must have no NUL character; remove it`);
}
