// Components that several pages use.

import { displayLine, displayText } from '../chat/client/mailroom.js';
import { plain } from '../chat/text.js';
import { Component, html, useEffect, useLayoutEffect, useRef, useState } from '../vendor/preact.js';
import { link } from './address.js';
import { useNow } from './load.js';
import { ago, short, whole } from './words.js';

/** Untrusted text on one line. */
export const Line = ({ text }) => displayLine(String(text ?? ''));

/** Untrusted text with its line breaks, or a value as JSON. */
export const Block = ({ value, label }) => html`<pre tabindex="0" aria-label=${label} class="block">${displayText(plain(value))}</pre>`;

const LONG = 600; // characters of a prompt that gets a scroll bar

/**
 * The text of a question, with code between backticks. Other Markdown stays as it is: a person who decides must see all
 * of the text, such as the target of a link.
 */
export function Prompt({ text }) {
  const parts = displayText(text).split(/`([^`\n]+)`/);
  return html`<p class="prompt" tabindex=${text.length > LONG ? 0 : null}>${parts.map((part, i) => (i % 2 === 1 ? html`<code key=${i}>${part}</code>` : part))}</p>`;
}

/** A time as an age. */
export function Time({ at }) {
  const now = useNow();
  return at ? html`<time datetime=${at} title=${whole(at)}>${ago(at, now)}</time>` : '–';
}

const STATUS = {
  queued: 'idle', running: 'busy', waiting: 'warn', completed: 'good', failed: 'bad', cancelled: 'idle',
  connected: 'good', starting: 'busy', silent: 'warn', parked: 'bad', gave_up: 'bad', standby: 'idle', paused: 'warn', available: 'good', unavailable: 'bad',
  open: 'good', low: 'warn', spent: 'bad',
};

/** A status: a dot and its name. */
export const Status = ({ of, text, tone = STATUS[of] ?? 'idle' }) => html`<span class="status" data-tone=${tone}><span class="dot" aria-hidden="true"></span>${displayLine(text ?? of)}</span>`;

/** The link to a run. */
export const RunLink = ({ id }) => html`<a href=${link('run', id)} title=${displayLine(id)} class="mono">${short(id)}</a>`;

/** The link to the conversation of a thread. */
export const ThreadLink = ({ id }) => html`<a href=${`chat#${encodeURIComponent(id)}`} title=${displayLine(id)} class="thread"><${Line} text=${id} /></a>`;

/** What went wrong, and a way to try again. */
export function Problem({ error, retry }) {
  if (!error) return null;
  const what = error.code === 'forbidden' ? 'Your token may not see this.' : displayLine(error.detail ?? error.message);
  return html`<p class="problem" role="alert">${what} ${retry && html`<button type="button" class="link" onClick=${retry}>Try again</button>`}</p>`;
}

/** Shows its children, or that they cannot be shown: an error in one of them must not leave an empty page. */
export class Boundary extends Component {
  componentDidCatch(error) { this.setState({ error }); }

  render({ children }, { error }) {
    if (!error) return children;
    return html`<p class="problem" role="alert">This cannot be shown: ${displayLine(error.message)}. <button type="button" class="link" onClick=${() => this.setState({ error: null })}>Try again</button></p>`;
  }
}

/** A page without items: what that means, and what to do. */
export const Empty = ({ title, children }) => html`<div class="empty"><p class="lead">${title}</p><p>${children}</p></div>`;

/** A button whose action takes time. It is disabled until then, and shows a refusal. */
export function Action({ run, children, kind = 'quiet', disabled = false, label }) {
  const [state, setState] = useState({ busy: false, error: null });
  const here = useRef(true);
  useEffect(() => () => { here.current = false; }, []);
  const act = async () => {
    setState({ busy: true, error: null });
    let error = null;
    try {
      await run();
    } catch (thrown) {
      error = thrown;
    }
    if (here.current) setState({ busy: false, error });
  };
  return html`<span class="action">
    <button type="button" class=${kind} disabled=${disabled || state.busy} aria-label=${label} onClick=${act}>${children}</button>
    ${state.error && html`<span class="refused" role="alert">${displayLine(state.error.detail ?? state.error.message)}</span>`}
  </span>`;
}

/** A dialog that is open as long as it is rendered. */
export function Modal({ title, close, children }) {
  const node = useRef(null);
  useLayoutEffect(() => {
    node.current.showModal();
    return () => node.current?.close();
  }, []);
  return html`<dialog ref=${node} aria-labelledby="modal-title" onCancel=${(event) => { event.preventDefault(); close(); }}>
    <h2 id="modal-title">${title}</h2>
    ${children}
  </dialog>`;
}

/** A term and its value, for details. */
export const Detail = ({ name, children }) => html`<div class="detail"><dt>${name}</dt><dd>${children}</dd></div>`;
