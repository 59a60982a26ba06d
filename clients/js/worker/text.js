// The message that an attempt is writing, and what is shown beside it.

import { invalid } from './errors.js';
import { bytesOf, MiB, wellFormed } from './json.js';

const limit = MiB; // bytes of one message, and of what is shown beside it
const mostLabel = 1000; // bytes

/**
 * A text that arrives in pieces and is sent in pieces, with its offsets in bytes. A piece may end within a surrogate
 * pair: that half waits for the next one.
 */
class Flow {
  text = '';
  #half = '';
  #bytes = 0;

  /** Adds at most room bytes of a piece. Returns the bytes that it added, and whether they are the whole piece. */
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

  /** All that was added, with a half surrogate pair at the end. */
  get all() { return this.text + this.#half; }

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
  /** The draft that has this one's text, if it follows a message that goes on. */
  into = null;
  /** The draft of the message after this one, once a step has taken this one. */
  next = null;
  #flow = new Flow();
  #shown = start; // up to here readers have it
  #stored = start; // up to here the server has it
  #beside = new Map(); // live text beside the message, by channel and call: { channel, call, name, flow, shown }
  #room = limit;
  #roomBeside = limit;

  get text() { return this.#flow.text; }

  /** The text if the message ends here: half a surrogate pair at its end becomes U+FFFD. */
  get whole() {
    const half = this.#flow.all.length > this.text.length;
    const cut = half && this.#room < bytesOf('\ufffd');
    return { text: half && !cut ? `${this.text}\ufffd` : this.text, truncated: this.truncated || cut };
  }

  write(text) {
    if (this.truncated) return; // nothing follows a cut
    const { taken, whole } = this.#flow.add(text, this.#room);
    this.#room -= taken;
    if (!whole) this.truncated = true;
  }

  /** Adds live text beside the message. A piece that exceeds the limit, counted with call and name, is not shown. */
  show(text, channel, call = '', name = '') {
    const size = bytesOf(text) + bytesOf(call) + bytesOf(name);
    if (text === '' || size > this.#roomBeside) return;
    const key = `${channel} ${call}`;
    let beside = this.#beside.get(key);
    if (!beside) this.#beside.set(key, beside = { channel, call, name, flow: new Flow(), shown: start });
    beside.flow.add(text, Infinity);
    this.#roomBeside -= size;
  }

  /** Appends what was written into the next draft. */
  absorb(draft) {
    this.write(draft.#flow.all);
    if (draft.truncated) this.truncated = true;
    for (const { channel, call, name, flow } of draft.#beside.values()) this.show(flow.all, channel, call, name);
  }

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

  /** The deltas with what readers do not have yet: live text beside the message, and with withText its own text. */
  toShow(withText) {
    const bodies = [];
    for (const beside of this.#beside.values()) {
      const { channel, call, name, flow, shown } = beside;
      beside.shown = flow.mark;
      const text = flow.text.slice(shown.at);
      if (text) bodies.push({ channel, call: call || undefined, name: name || undefined, offset: shown.bytes, text });
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

/** Throws for what cannot be the id or the name of a tool call. */
export function checkLabel(text, what) {
  checkText(text, what);
  if (text === '' || bytesOf(text) > mostLabel) throw invalid(`${what} must have 1 to ${mostLabel} bytes`);
}
