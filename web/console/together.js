// Deciding all questions of a group: first their number and what each asks, then one press.

import { html, useState } from '../vendor/preact.js';
import { decide, over, waitingFor } from './decisions.js';
import { Line, Modal, Prompt, ThreadLink, Time } from './parts.js';
import { Given } from './question.js';
import { number } from './words.js';

const MOST = 500; // questions that are decided together
const VERBS = { approve: 'Approve', deny: 'Deny', answer: 'Answer' };

/** Decides the questions that the group had when this was opened: one that is asked later is not among them. */
export function Together({ group, decision, close }) {
  const [tickets] = useState(() => group.tickets.filter(({ id }) => !waitingFor(id) && !over.value.has(id)).slice(0, MOST));
  const [text, setText] = useState('');
  const [refused, setRefused] = useState('');
  const count = `${number(tickets.length)} ${tickets.length === 1 ? 'question' : 'questions'}`;
  const answers = decision === 'answer';
  const submit = (event) => {
    event.preventDefault();
    if (answers && !text.trim()) {
      setRefused('Write an answer first.');
      return;
    }
    decide(tickets, decision, text.trim());
    close();
  };
  const label = answers ? 'Answer to all' : 'Reason (optional)';
  return html`<${Modal} title=${`${VERBS[decision]} ${count}?`} close=${close}>
    <form class="stack together" onSubmit=${submit}>
      <p class="meta"><strong><${Line} text=${group.agent} /></strong>${group.action && html` <code><${Line} text=${group.action} /></code>`}</p>
      <${Prompt} text=${group.prompt} />
      ${group.tickets.length > MOST && html`<p class="hint">The first ${number(MOST)} of ${number(group.tickets.length)}.</p>`}
      <ol class="each" tabindex="0" aria-label=${count}>${tickets.map((ticket) => html`<li key=${ticket.id}>
        <p class="meta"><${ThreadLink} id=${ticket.thread} /> ${ticket.expires_at && html`<span class="expires">expires <${Time} at=${ticket.expires_at} /></span>`} <span title=${ticket.digest}>fingerprint <code>${ticket.digest.slice(0, 16)}</code></span></p>
        ${group.differ && html`<${Prompt} text=${ticket.prompt} />`}
        <${Given} value=${ticket.arguments} />
      </li>`)}</ol>
      <p class="hint">Each decision carries the fingerprint shown here: a question that has changed is refused.</p>
      <input aria-label=${label} placeholder=${label} value=${text} maxlength="1000" autocomplete="off" autofocus=${answers} onInput=${(event) => setText(event.target.value)} />
      ${refused && html`<p class="refused" role="alert">${refused}</p>`}
      <p class="buttons"><button type="submit" class=${decision} disabled=${tickets.length === 0} autofocus=${!answers}>${VERBS[decision]} ${count}</button> <button type="button" class="quiet" onClick=${close}>Cancel</button></p>
    </form>
  <//>`;
}
