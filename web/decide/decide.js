// The page of a link in an alert. It shows one question, or who decided it. The link is behind # in the
// address, so that no server and no log gets it with the address, and only a press of a button decides.

import { html, render, useEffect, useState } from '../vendor/preact.js';
import { Block, Detail, Line, Prompt, Time } from '../console/parts.js';

const link = location.hash.slice(1);

const SOON = 10_000; // milliseconds in which a request has to be answered

/** An error that a repeat of the request does not end. */
class Refusal extends Error {}

const sentence = (text) => `${text[0].toUpperCase()}${text.slice(1)}${text.endsWith('.') ? '' : '.'}`;

/** Posts to the server; rejects with its words. */
async function post(path, body) {
  const signal = AbortSignal.timeout(SOON); // a decision must not wait and be made when the person has gone
  const response = await fetch(path, {
    signal, method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(body), credentials: 'omit', cache: 'no-store', referrerPolicy: 'no-referrer',
  }).catch(() => { throw new Error(signal.aborted ? 'The server did not answer in time, and the request was withdrawn.' : 'The server cannot be reached.'); });
  const answer = await response.json().catch(() => ({}));
  if (!response.ok) {
    const words = answer.detail ? sentence(answer.detail) : `The server answered ${response.status}.`;
    throw response.status < 500 && response.status !== 429 ? new Refusal(words) : new Error(words);
  }
  return answer;
}

const DONE = { approve: 'Approved', deny: 'Denied', answer: 'Answered' };

function Outcome({ ticket }) {
  const { state, decision, decided_by: by, decided_at: at, reason } = ticket;
  if (state === 'expired') return html`<p class="outcome">Too late: the question has expired, which counts as denied.</p>`;
  if (state === 'void') return html`<p class="outcome">Too late: the run that asked has ended.</p>`;
  return html`<p class="outcome"><strong>${DONE[decision]}</strong> by <${Line} text=${by} />, <${Time} at=${at} />${reason && html`: <${Line} text=${reason} />`}</p>`;
}

function Choices({ ticket, decide, busy }) {
  const [text, setText] = useState('');
  const said = text.trim();
  const asks = ticket.kind === 'input';
  return html`<div>
    <label for="words">${asks ? 'Answer' : 'Reason, if you deny'}</label>
    <textarea id="words" value=${text} onInput=${({ target }) => setText(target.value)} maxlength="4000"></textarea>
    <div class="choices">${asks
      ? html`<button type="button" class="wide" disabled=${busy || !said} onClick=${() => decide({ decision: 'answer', answer: said })}>Send the answer</button>`
      : html`<button type="button" class="approve" disabled=${busy} onClick=${() => decide({ decision: 'approve' })}>Approve</button>
        <button type="button" class="deny quiet" disabled=${busy} onClick=${() => decide({ decision: 'deny', reason: said || undefined })}>Deny</button>`}</div>
  </div>`;
}

function Page() {
  const [question, setQuestion] = useState(null);
  const [error, setError] = useState(null);
  const [busy, setBusy] = useState(false);
  const run = async (path, more) => {
    setBusy(true);
    setError(null);
    try {
      setQuestion(await post(path, { link, ...more }));
    } catch (reason) {
      setError(reason);
      return false;
    } finally {
      setBusy(false);
    }
    return true;
  };
  const show = () => run('v1/question', {});
  const decide = async (decision) => {
    if (await run('v1/question/decision', decision)) return;
    await post('v1/question', { link }).then(setQuestion, () => {}); // another person may have decided; the error stays
  };
  useEffect(() => { show(); }, []);
  if (!question) {
    return html`<h1>A question</h1>
      ${error ? html`<p class="outcome" role="alert">${error.message}</p>` : html`<p role="status">Loading …</p>`}
      ${error && !(error instanceof Refusal) && html`<div class="choices"><button type="button" class="wide quiet" onClick=${show}>Try again</button></div>`}`;
  }
  const { ticket, agent } = question;
  return html`<h1><${Line} text=${agent} /> ${ticket.kind === 'input' ? 'asks a question' : 'asks for an approval'}</h1>
    <p class="meta"><span>In <${Line} text=${ticket.thread} /></span>${ticket.state === 'open' && ticket.expires_at && html`<span>Expires <${Time} at=${ticket.expires_at} /></span>`}</p>
    ${ticket.prompt && html`<${Prompt} text=${ticket.prompt} />`}
    <dl>
      ${ticket.action && html`<${Detail} name="Action"><code><${Line} text=${ticket.action} /></code><//>`}
      ${ticket.arguments !== null && html`<${Detail} name="Arguments"><${Block} value=${ticket.arguments} label="Arguments" /><//>`}
      <${Detail} name="Fingerprint"><code title=${ticket.digest}>${ticket.digest.slice(0, 16)}</code><//>
    </dl>
    ${ticket.state === 'open' ? html`<${Choices} ticket=${ticket} decide=${decide} busy=${busy} />` : html`<${Outcome} ticket=${ticket} />`}
    <p class="unseen" role="status">${ticket.state === 'open' ? '' : 'The question is decided.'}</p>
    ${error && html`<p class="outcome" role="alert">${error.message}</p>`}`;
}

render(html`<${Page} />`, document.getElementById('decide'));
