// The transcript on the page: elements in the order of the items, and the place
// that its reader looks at.

import { make } from './items.js';

const NEAR = 80; // pixels from the end that count as being there

export class View {
  #list;
  #scroll;
  #down;
  #act;
  #nodes = new Map(); // key → element
  #transcript = null;
  #sending = () => [];
  #due = false;
  #follows = true; // the reader is at the end, and stays there
  onShown = () => {};

  constructor({ list, scroll, down, act }) {
    [this.#list, this.#scroll, this.#down, this.#act] = [list, scroll, down, act];
    scroll.addEventListener('scroll', () => {
      this.#follows = scroll.scrollHeight - scroll.scrollTop - scroll.clientHeight < NEAR;
      if (this.#follows) down.hidden = true;
    }, { passive: true });
    down.addEventListener('click', () => this.toEnd());
    // The composer and the keyboard of a phone change how much is seen.
    new ResizeObserver(() => this.#follows && this.#jump()).observe(scroll);
  }

  /** Shows another transcript from now on. sending gives the messages that are on their way. */
  show(transcript, sending) {
    [this.#transcript, this.#sending] = [transcript, sending];
    this.#nodes.clear();
    this.#list.replaceChildren();
    this.#follows = true;
    this.#down.hidden = true;
    this.later();
  }

  /** Draws before the next frame, however often it is asked for until then. */
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

  /** Draws what came above what is seen, which stays where it is. */
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
      if (node.item !== item || changed.has(item)) { // another one under its key: folded again
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

  #jump() { this.#scroll.scrollTop = this.#scroll.scrollHeight; }
}
