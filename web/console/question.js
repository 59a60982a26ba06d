// A question of an agent, with what a person needs to decide it.

import { displayLine } from '../chat/client/mailroom.js';
import { isEnter } from '../chat/text.js';
import { html, useEffect, useState } from '../vendor/preact.js';
import { may } from './account.js';
import { decide, DOING, over, TITLES, titleOf, undo, waitingFor } from './decisions.js';
import { Block, Detail, Line, Prompt, RunLink, ThreadLink, Time } from './parts.js';
import { whole } from './words.js';

const SHORT = 400; // characters of arguments that are shown in the line of a question; longer ones get a block

// inLine returns arguments in one line, null if they are too long for it.
function inLine(value) {
  const text = typeof value === 'string' ? value : JSON.stringify(value, null, 1).replace(/\n\s*/g, ' ');
  return text.length > SHORT || text.includes('\n') ? null : text;
}

/** All arguments of a question, in one line if they are short. */
export function Given({ value }) {
  if (value === null || value === undefined) return null;
  const text = inLine(value);
  return text === null ? html`<${Block} value=${value} label="Arguments" />` : html`<code class="given"><${Line} text=${text} /></code>`;
}

/** The digest in full, for the details. */
export const Fingerprint = ({ digest }) => html`<${Detail} name="Fingerprint"><code class="digest" title="SHA-256 of the whole question">${digest}</code><//>`;

/** A question on the page of its run. */
export function Ticket({ ticket }) {
  const { id, kind, prompt, action, arguments: given, digest, opened_at: opened, expires_at: expires } = ticket;
  return html`<li data-id=${id} tabindex="-1" class="card" aria-label=${`${TITLES[kind]}: ${titleOf(ticket)}`}>
    <p class="meta"><strong>${TITLES[kind]}</strong> ${opened && html`<span>asked <${Time} at=${opened} /></span>`} ${expires && html`<span class="expires">expires <${Time} at=${expires} /></span>`}</p>
    ${prompt && html`<${Prompt} text=${prompt} />`}
    <dl>
      ${action && html`<${Detail} name="Action"><code><${Line} text=${action} /></code><//>`}
      ${given !== null && given !== undefined && html`<${Detail} name="Arguments"><${Block} value=${given} label="Arguments" /><//>`}
    </dl>
    <${Decide} ticket=${ticket} reason />
    <details><summary>Details</summary><dl><${Fingerprint} digest=${digest} /></dl></details>
  </li>`;
}

/** A question as a line of its group in the inbox. own shows its prompt, for a group whose prompts differ. */
export function Row({ ticket, own, selected, select }) {
  const { id, kind, arguments: given, digest, opened_at: opened, expires_at: expires, thread, run } = ticket;
  const [open, setOpen] = useState(false);
  return html`<li data-id=${id} tabindex="-1" class="question" data-kind=${kind} aria-current=${selected ? 'true' : null} aria-label=${displayLine(`${TITLES[kind]}: ${titleOf(ticket)} (${thread})`)} onFocusCapture=${select} onPointerDown=${select}>
    <div class="where"><${ThreadLink} id=${thread} /> <${RunLink} id=${run} /> ${opened && html`<span>asked <${Time} at=${opened} /></span>`} ${expires && html`<span class="expires">expires <${Time} at=${expires} /></span>`}
      <button type="button" class="link" aria-expanded=${String(open)} onClick=${() => setOpen(!open)}>Details</button></div>
    ${(own || (given !== null && given !== undefined)) && html`<div class="what">${own && html`<${Prompt} text=${ticket.prompt} />`}<${Given} value=${given} /></div>`}
    <${Decide} ticket=${ticket} reason=${open} />
    ${open && html`<dl class="more">
      ${given !== null && typeof given === 'object' && inLine(given) !== null && html`<${Detail} name="Arguments"><${Block} value=${given} label="Arguments, line by line" /><//>`}
      ${opened && html`<${Detail} name="Asked">${whole(opened)}<//>`}
      ${expires && html`<${Detail} name="Expires">${whole(expires)}<//>`}
      <${Fingerprint} digest=${digest} />
    </dl>`}
  </li>`;
}

/**
 * The buttons of a question, then how long its decision can be undone, then its outcome. reason shows a field for one. The
 * second click of a double click counts for nothing: it would hit what the first one put there.
 */
export function Decide({ ticket, reason = false }) {
  const [text, setText] = useState('');
  const [refused, setRefused] = useState('');
  const { id, kind } = ticket;
  const held = waitingFor(id);
  if (over.value.has(id)) return html`<p class="decide hint"><${Line} text=${over.value.get(id)} /></p>`;
  if (!may('decide')) return html`<p class="decide hint">Your token may not decide; it needs the scope decide.</p>`;
  if (held) return html`<${Held} held=${held} />`;
  const press = (decision) => (event) => {
    if (event.detail > 1) return;
    if (decision === 'answer' && !text.trim()) {
      setRefused('Write an answer first.');
      return;
    }
    setRefused('');
    keepFocus(event);
    decide([ticket], decision, text.trim());
  };
  const label = kind === 'approval' ? 'Reason (optional)' : 'Answer';
  return html`<div class="decide">
    ${(reason || kind !== 'approval') && html`<input aria-label=${label} placeholder=${label} value=${text} maxlength="1000" onInput=${(event) => setText(event.target.value)}
      onKeyDown=${(event) => isEnter(event) && kind !== 'approval' && press('answer')(event)} />`}
    <span class="both">${kind === 'approval' ? html`<button type="button" class="approve" onClick=${press('approve')}>Approve</button><button type="button" class="quiet deny" onClick=${press('deny')}>Deny</button>` : html`<button type="button" class="answer" onClick=${press('answer')}>Answer</button>`}</span>
    ${refused && html`<span class="refused" role="alert">${refused}</span>`}
  </div>`;
}

function Held({ held }) {
  return html`<div class="decide held"><span class="doing">${held.sending ? 'Sending…' : html`${DOING[held.decision]} in <${Left} due=${held.due} />`}</span>
    ${!held.sending && html`<button type="button" class="quiet undo" onClick=${(event) => { if (event.detail > 1) return; keepFocus(event); undo(held.key); }}>Undo${held.tickets.length > 1 ? ' all' : ''}</button>`}</div>`;
}

// keepFocus moves the focus of a button or field that goes away to its question.
function keepFocus({ currentTarget }) {
  const of = currentTarget.closest('[data-id]');
  if (of?.contains(document.activeElement)) of.focus({ preventScroll: true });
}

/** The seconds until a decision is sent. */
export function Left({ due }) {
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), 250);
    return () => clearInterval(timer);
  }, []);
  return html`<span class="left">${Math.max(1, Math.ceil((due - now) / 1000))} s</span>`;
}

