// All questions that wait for a person.

import { html, useEffect, useRef, useState } from '../vendor/preact.js';
import { client, may } from './account.js';
import { decideSoon } from '../chat/decision.js';
import { isEnter } from '../chat/text.js';
import { useLoad } from './load.js';
import { Action, Block, Detail, Empty, Line, Problem, RunLink, ThreadLink, Time } from './parts.js';

/** The kinds of tickets that a person can decide, and how they are called. */
export const TITLES = { approval: 'Approval', input: 'Question', event: 'Event' };

/** The open tickets that a person can decide, the oldest first. */
async function openTickets(signal) {
  const found = [];
  let cursor;
  do {
    const page = await client.tickets({ q: 'state:open', cursor, limit: 500, signal });
    found.push(...page.items.filter(({ kind }) => TITLES[kind]));
    cursor = page.next;
  } while (cursor && found.length < 2000);
  return found.reverse();
}

export function Inbox() {
  const { data, error, reload } = useLoad(openTickets, [], ['ticket.', 'run.cancelled', 'run.failed']);
  const [at, setAt] = useState(null); // id of the selected ticket
  const [done, setDone] = useState(null); // outcome of the last decision
  const list = useRef(null);
  const place = Math.max(0, data?.findIndex(({ id }) => id === at) ?? 0);
  const decided = (text) => {
    setDone(text);
    setAt(data[place + 1]?.id ?? data[place - 1]?.id ?? null);
    reload();
  };
  useEffect(() => {
    const press = ({ key, target, ctrlKey, metaKey, altKey }) => {
      if (ctrlKey || metaKey || altKey || target.closest('input, textarea, select, dialog') || !data?.length) return;
      const step = { j: 1, k: -1 }[key];
      if (step) {
        const next = data[Math.min(Math.max(place + step, 0), data.length - 1)];
        setAt(next.id);
        list.current?.querySelector(`[data-id="${CSS.escape(next.id)}"]`)?.focus();
      }
      const button = { a: '.approve', d: '.deny' }[key];
      if (button) list.current?.querySelector(`[data-id="${CSS.escape(data[place].id)}"] ${button}`)?.click();
    };
    addEventListener('keydown', press);
    return () => removeEventListener('keydown', press);
  }, [data, place]);
  return html`<section class="page">
    <h1>Inbox</h1>
    <p class="unseen" role="status">${done}</p>
    <${Problem} error=${error} retry=${reload} />
    ${done && html`<p class="notice">${done}</p>`}
    ${data?.length === 0 && html`<${Empty} title="Nothing waits for you">Questions and approvals of agents appear here as soon as they are asked.<//>`}
    <ol class="tickets" ref=${list}>${data?.map((ticket, i) => html`<${Ticket} key=${ticket.id} ticket=${ticket} selected=${i === place} select=${() => setAt(ticket.id)} decided=${decided} />`)}</ol>
  </section>`;
}

/** A question with what a person needs to decide it. decided is called with the outcome. */
export function Ticket({ ticket, selected = false, select, decided }) {
  const { id, kind, prompt, action, arguments: given, digest, opened_at: opened, expires_at: expires, thread, run, name } = ticket;
  return html`<li data-id=${id} tabindex="-1" class="card" aria-current=${selected ? 'true' : null} aria-label=${`${TITLES[kind]}: ${prompt ?? name}`} onFocusCapture=${select}>
    <p class="meta"><strong>${TITLES[kind]}</strong> <${ThreadLink} id=${thread} /> <${RunLink} id=${run} /> ${opened && html`<span>asked <${Time} at=${opened} /></span>`} ${expires && html`<span class="expires">expires <${Time} at=${expires} /></span>`}</p>
    ${prompt && html`<p class="prompt"><${Line} text=${prompt} /></p>`}
    <dl>
      ${action && html`<${Detail} name="Action"><code><${Line} text=${action} /></code><//>`}
      ${given !== null && given !== undefined && html`<${Detail} name="Arguments"><${Block} value=${given} label="Arguments" /><//>`}
      <${Detail} name="Fingerprint"><code title=${digest}>${digest.slice(0, 16)}</code><//>
    </dl>
    ${may('decide') ? html`<${Decide} ticket=${ticket} decided=${decided} />` : html`<p class="hint">Your token may not decide; it needs the scope decide.</p>`}
  </li>`;
}

const DONE = { approve: 'Approved', deny: 'Denied', answer: 'Answered' };

// Decide sends the digest of the ticket that is shown, so that a decision cannot apply to another question.
function Decide({ ticket, decided }) {
  const [text, setText] = useState('');
  const { id, kind, digest, name } = ticket;
  const send = async (decision) => {
    const said = text.trim();
    if (decision === 'answer' && !said) throw new Error('Write an answer first.');
    try {
      const now = await decideSoon(client, id, { decision, digest, ...(decision === 'answer' ? { answer: said } : { reason: said || undefined }) });
      decided(now.decision === decision ? `${DONE[decision]}: ${ticket.prompt ?? name}` : words(now));
    } catch (error) {
      if (error.code !== 'conflict' && error.code !== 'gone') throw error;
      decided(await outcome(id) ?? error.detail);
    }
  };
  const label = kind === 'approval' ? 'Reason (optional)' : 'Answer';
  return html`<div class="decide">
    <input aria-label=${label} placeholder=${label} value=${text} maxlength="1000" onInput=${(event) => setText(event.target.value)}
      onKeyDown=${(event) => isEnter(event) && kind !== 'approval' && event.target.closest('.decide').querySelector('.answer').click()} />
    ${kind === 'approval' ? html`<${Action} run=${() => send('approve')} kind="approve">Approve<//><${Action} run=${() => send('deny')} kind="quiet deny">Deny<//>` : html`<${Action} run=${() => send('answer')} kind="answer">Answer<//>`}
  </div>`;
}

const outcome = async (id) => words(await client.ticket(id));

// words tells how a ticket ended, null for an open one.
function words({ state, decision, decided_by: by }) {
  if (state === 'expired') return 'It has expired.';
  if (state === 'void') return 'Its run has ended.';
  return state === 'decided' ? `${DONE[decision]} by ${by} before you.` : null;
}
