// The bar below every page: decisions that can be undone, and how they ended.

import { html, useLayoutEffect } from '../vendor/preact.js';
import { advice, dismiss, DOING, forget, nameOf, outcomes, said, undo, unsent, waiting } from './decisions.js';
import { Line, RunLink, ThreadLink } from './parts.js';
import { Left } from './question.js';
import { number } from './words.js';

const MOST = 3; // decisions that are listed one by one

export function Decisions() {
  useLayoutEffect(() => {
    const press = ({ key, target, ctrlKey, metaKey, altKey }) => {
      if (key !== 'u' || ctrlKey || metaKey || altKey || target.closest('input, textarea, select, dialog')) return;
      const [ticket] = undo()?.tickets ?? [];
      const row = ticket && document.querySelector(`main [data-id="${CSS.escape(ticket.id)}"]`);
      if (row instanceof HTMLElement) row.focus();
    };
    addEventListener('keydown', press);
    return () => removeEventListener('keydown', press);
  }, []);
  const held = waiting.value;
  const older = held.slice(0, Math.max(0, held.length - MOST));
  return html`<aside class="decisions" aria-label="Decisions">
    <p class="unseen" role="status"><${Line} text=${said.value} /></p>
    <p class=${advice.value ? 'step hint' : 'unseen'} role="status">${advice.value}</p>
    <${Unsent} />
    ${outcomes.value.map((outcome) => html`<${Outcome} key=${outcome.key} outcome=${outcome} />`)}
    ${older.length > 0 && html`<p class="hint">${number(older.length)} more ${older.length === 1 ? 'decision waits' : 'decisions wait'}.</p>`}
    ${held.slice(older.length).map((one) => html`<p class="step" key=${one.key}>
      <span class="text">${one.sending
        ? `Sending${one.tickets.length > 1 ? ` ${number(one.sent)} of ${number(one.tickets.length)}` : ''}…`
        : html`${DOING[one.decision]} <${Line} text=${nameOf(one.tickets)} /> in <${Left} due=${one.due} />`}</span>
      ${!one.sending && html`<button type="button" class="quiet undo" onClick=${({ detail }) => detail < 2 && undo(one.key)}>Undo</button>`}
    </p>`)}
  </aside>`;
}

function Outcome({ outcome: { key, good, text, failed } }) {
  return html`<div class=${good ? 'step notice' : 'step problem'} role=${good ? 'status' : 'alert'}>
    <div class="text"><p><${Line} text=${text} /></p>
      ${failed.length > 0 && html`<ul class="failed" tabindex="0" aria-label="Questions that were not decided">${failed.map(({ ticket, why }) => html`<li key=${ticket.id}><${ThreadLink} id=${ticket.thread} /> <${RunLink} id=${ticket.run} /> <${Line} text=${why} /></li>`)}</ul>`}</div>
    <button type="button" class="link" onClick=${() => dismiss(key)}>Close</button>
  </div>`;
}

/** Says that decisions were not sent, also to one who has to sign in first. */
export function Unsent() {
  if (!unsent.value) return null;
  const { count, why } = unsent.value;
  const what = count === 1 ? 'One decision was not sent' : `${number(count)} decisions were not sent`;
  return html`<div class="step problem" role="alert"><p class="text">${what}, ${why}. ${count === 1 ? 'Its question is' : 'Their questions are'} open.</p> <button type="button" class="link" onClick=${forget}>Close</button></div>`;
}
