// Renders the transcript and keeps the reader's scroll position.

import { make } from './items.js';
import { el, tell } from './text.js';

const NEAR = 80; // pixels from the end that still count as the end
const THOUGHTS = 20_000; // characters of thinking that are shown, the last ones

export class View {
  #list;
  #scroll;
  #down;
  #act;
  #nodes = new Map(); // key → element
  #thinking = null; // { node, body }; it is folded until the reader opens it
  #transcript = null;
  #sending = () => [];
  #due = false;
  #follows = true; // the view scrolls with new items
  onShown = () => {};

  constructor({ list, scroll, down, act }) {
    [this.#list, this.#scroll, this.#down, this.#act] = [list, scroll, down, act];
    scroll.addEventListener('scroll', () => {
      this.#follows = scroll.scrollHeight - scroll.scrollTop - scroll.clientHeight < NEAR;
      if (this.#follows) down.hidden = true;
    }, { passive: true });
    down.addEventListener('click', () => this.toEnd());
    // The composer and an on-screen keyboard change the visible height.
    new ResizeObserver(() => this.#follows && this.#jump()).observe(scroll);
  }

  /** Shows another transcript. sending returns the unanswered messages. */
  show(transcript, sending) {
    [this.#transcript, this.#sending] = [transcript, sending];
    this.#nodes.clear();
    this.#thinking = null;
    this.#list.replaceChildren();
    this.#follows = true;
    this.#down.hidden = true;
    this.later();
  }

  /** Draws once before the next frame. */
  later() {
    if (this.#due) return;
    this.#due = true;
    requestAnimationFrame(() => {
      this.#due = false;
      this.#draw();
    });
  }

  toEnd() {
    this.#follows = true;
    this.#down.hidden = true;
    this.#jump();
  }

  /** Draws prepended items and keeps the scroll position. */
  keeping() {
    const before = this.#scroll.scrollHeight - this.#scroll.scrollTop;
    this.#follows = false;
    this.#draw();
    this.#scroll.scrollTop = this.#scroll.scrollHeight - before;
  }

  #draw() {
    const transcript = this.#transcript;
    if (!transcript) return;
    const changed = [...transcript.changed()];
    const grown = changed.length === 1 && changed[0] === transcript.live?.item && this.#nodes.has(changed[0].key);
    if (grown) this.#nodes.get(changed[0].key).bring(changed[0]);
    else this.#arrange(new Set(changed));
    this.#think(transcript.thinking, this.#nodes.get(transcript.live?.item.key) ?? null);
    if (this.#follows) this.#jump();
    else if (changed.length > 0) this.#down.hidden = false;
    this.onShown();
  }

  #arrange(changed) {
    const items = [...this.#transcript.items, ...this.#sending()];
    const gone = new Map(this.#nodes);
    let place = this.#list.firstChild;
    for (const item of items) {
      const node = this.#nodes.get(item.key) ?? make(item, this.#act);
      if (node.item !== item || changed.has(item)) { // folding the transcript again makes new items with the same keys
        node.item = item;
        node.bring(item);
        this.#nodes.set(item.key, node);
      }
      gone.delete(item.key);
      if (node === place) place = place.nextSibling;
      else this.#list.insertBefore(node, place);
    }
    for (const [key, node] of gone) {
      node.remove();
      this.#nodes.delete(key);
    }
  }

  // think shows what the agent thinks before the message that it writes, or at the end.
  #think(thinking, before) {
    if (!thinking) {
      this.#thinking?.node.remove();
      this.#thinking = null;
      return;
    }
    if (!this.#thinking) {
      const body = el('p');
      this.#thinking = { node: el('details', { class: 'item thinking' }, el('summary', {}, 'Thinking'), body), body };
    }
    const { node, body } = this.#thinking;
    tell(body, thinking.text.slice(-THOUGHTS));
    if (!node.isConnected || node.nextSibling !== before) this.#list.insertBefore(node, before);
  }

  #jump() { this.#scroll.scrollTop = this.#scroll.scrollHeight; }
}
