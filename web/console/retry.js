// The retry of a run, and what it keeps.

import { html, useState } from '../vendor/preact.js';
import { client } from './account.js';
import { Action, Line, Modal } from './parts.js';
import { keptOf } from './spans.js';
import { number } from './words.js';

const NAMED = 10; // effects that are named

/** The button that retries a failed or cancelled run, after a dialog that says what is kept. */
export function Retry({ log, done }) {
  const [asking, setAsking] = useState(false);
  return html`<button type="button" class="quiet" onClick=${() => setAsking(true)}>Retry…</button>
    ${asking && html`<${Ask} log=${log} close=${() => setAsking(false)} done=${done} />`}`;
}

const plural = (n, one, many) => `${number(n)} ${n === 1 ? one : many}`;

const Names = ({ list }) => html`${list.slice(0, NAMED).map((name, i) => html`${i > 0 ? ', ' : ''}<code key=${name}><${Line} text=${name} /></code>`)}${list.length > NAMED ? ` and ${number(list.length - NAMED)} more` : ''}`;

function Ask({ log, close, done }) {
  const [fresh, setFresh] = useState(false);
  const { done: kept, failed, unknown, decided, sent } = keptOf(log.entries);
  const choice = (value, title, text) => html`<label class="choice"><input type="radio" name="retry" checked=${fresh === value} onChange=${() => setFresh(value)} /> <span><strong>${title}</strong><br /><span class="hint">${text}</span></span></label>`;
  return html`<${Modal} title="Retry this run" close=${close}>
    <fieldset class="stack"><legend class="unseen">How</legend>
      ${choice(false, 'Go on with what is recorded', 'The agent starts again from its top, with the last checkpoint that it saved. What is listed below is kept.')}
      ${choice(true, 'Start over', 'The checkpoint, the recorded effects and the decisions are dropped. Effects are called again, so they may happen twice, and questions are asked again.')}
    </fieldset>
    <div>
      <p>${fresh ? 'Dropped' : 'Kept'}${log.gap ? ', as far as the log is loaded' : ''}:</p>
      <ul class="kept">
        ${kept.length > 0 && html`<li>${plural(kept.length, 'recorded effect or memo', 'recorded effects and memos')}: <${Names} list=${kept} /></li>`}
        ${decided > 0 && html`<li>${plural(decided, 'decision', 'decisions')}</li>`}
        ${kept.length === 0 && decided === 0 && html`<li>No effect, memo or decision is recorded: what the agent did outside of Mailroom may happen again.</li>`}
      </ul>
      ${failed.length > 0 && html`<p>Called again, because they failed: <${Names} list=${failed} /></p>`}
      ${unknown.length > 0 && html`<p>Of unknown outcome: <${Names} list=${unknown} />. ${fresh ? 'They are called again.' : 'A person or the agent decides whether they are called again.'}</p>`}
      ${sent > 0 && html`<p class="hint">Either way, a message that it has sent to another thread is not sent again under the same name.</p>`}
    </div>
    <p class="hint">A retry cannot begin at an earlier step: a run keeps its last checkpoint only, and what an effect has done stays done.</p>
    <p class="buttons"><${Action} kind="" run=${async () => { await client.retry(log.id, { fresh }); close(); done(); }}>${fresh ? 'Start over' : 'Retry'}<//> <button type="button" class="quiet" onClick=${close}>Cancel</button></p>
  <//>`;
}
