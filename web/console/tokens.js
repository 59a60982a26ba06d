// Tokens, and the sessions and links that act for them.

import { html, useState } from '../vendor/preact.js';
import { client, may, user } from './account.js';
import { useLoad } from './load.js';
import { Action, Empty, Line, Modal, Problem, Time } from './parts.js';

const SCOPES = [
  ['read', 'show and follow threads and runs'], ['submit', 'send, edit, stop and retry'], ['decide', 'decide tickets'],
  ['work', 'run agents in another process'], ['metrics', 'read the metrics'], ['admin', 'everything, in all threads'],
];

async function readTokens(signal) {
  const found = [];
  let cursor;
  do {
    const page = await client.tokens({ cursor, signal });
    found.push(...page.items);
    cursor = page.next;
  } while (cursor);
  return found;
}

export function Tokens() {
  const { data, error, reload } = useLoad(readTokens, [], ['none']);
  const [making, setMaking] = useState(false);
  const own = data?.filter(isOwn) ?? [];
  return html`<section class="page">
    <h1>Tokens and sessions</h1>
    ${may('admin') ? html`<p class="tools"><button type="button" onClick=${() => setMaking(true)}>New token…</button></p>` : html`<p class="hint">Your sessions, links and limited tokens. Revoke that of a device that you lost; all that was made with it ends too.</p>`}
    <${Problem} error=${error} retry=${reload} />
    ${data?.length === 0 && html`<${Empty} title="No tokens">Only the operator's token exists, in the data folder of the server.<//>`}
    ${data?.length > 0 && html`<div class="table stacked" tabindex="0" role="region" aria-label="Tokens and sessions"><table>
      <thead><tr><th>Name</th><th>Kind</th><th>Scopes</th><th>Created</th><th>Used</th><th>Ends</th><th><span class="unseen">Actions</span></th></tr></thead>
      <tbody>${data.map((token) => html`<tr key=${token.name}>
        <th scope="row"><${Line} text=${token.for ?? token.name} />${token.namespace && html` <span class="hint"><${Line} text=${token.namespace} />*</span>`}</th>
        <td data-name="Kind">${token.kind}${own.length === 1 && token === own[0] && html` <strong class="own">this browser</strong>`}${token.client && html` <span class="hint"><${Line} text=${token.client} /></span>`}</td><td data-name="Scopes">${token.scopes.join(', ')}</td><td data-name="Created"><${Time} at=${token.created_at} /></td><td data-name="Used"><${Time} at=${token.used_at} /></td>
        <td data-name="Ends">${token.revoked_at ? html`revoked <${Time} at=${token.revoked_at} />` : html`<${Time} at=${token.expires_at} />`}</td>
        <td>${!token.revoked_at && (may('admin') || token.kind !== 'token') && html`<${Revoke} token=${token} reload=${reload} />`}</td>
      </tr>`)}</tbody>
    </table></div>`}
    ${making && html`<${Create} close=${() => { setMaking(false); reload(); }} />`}
  </section>`;
}

/** Whether a session may be the one of this page. The server does not name the session of a request, but its owner and its end, to the microsecond. */
const isOwn = ({ kind, for: of, expires_at: ends, revoked_at: revoked }) => user.value.kind === 'session' && kind === 'session' && !revoked && of === user.value.token && ends === user.value.expires_at;

function Revoke({ token, reload }) {
  const [sure, setSure] = useState(false);
  const name = token.kind === 'token' ? token.name : `${token.kind} of ${token.for}${token.client ? `, ${token.client}` : ''}`;
  if (!sure) return html`<button type="button" class="quiet" aria-label=${`Revoke ${name}`} onClick=${() => setSure(true)}>Revoke…</button>`;
  return html`<${Action} label=${`Revoke now: ${name}`} run=${async () => { await client.revokeToken(token.name); await reload(); }}>Revoke now<//> <button type="button" class="quiet" onClick=${() => setSure(false)}>Keep</button>`;
}

function Create({ close }) {
  const [made, setMade] = useState(null);
  const [error, setError] = useState(null);
  const create = async (event) => {
    event.preventDefault();
    const form = new FormData(event.target);
    const days = Number(form.get('days'));
    try {
      setMade(await client.createToken({
        name: String(form.get('name')).trim(), scopes: form.getAll('scope'), namespace: String(form.get('namespace')).trim() || undefined,
        expires_at: days > 0 ? new Date(Date.now() + days * 86_400_000).toISOString() : undefined,
      }));
    } catch (thrown) {
      setError(thrown);
    }
  };
  if (made) {
    return html`<${Modal} title=${`Token ${made.name}`} close=${close}>
      <p>This is its secret. It is shown once and not stored.</p>
      <p><input class="mono wide" readonly value=${made.token} aria-label="Secret" onFocus=${(event) => event.target.select()} /></p>
      <p class="buttons"><button type="button" onClick=${close}>Done</button></p>
    <//>`;
  }
  return html`<${Modal} title="New token" close=${close}>
    <form class="stack" onSubmit=${create}>
      <${Problem} error=${error} />
      <label for="name">Name</label><input id="name" name="name" required maxlength="64" autocomplete="off" spellcheck="false" />
      <fieldset><legend>Scopes</legend>${SCOPES.filter(([scope]) => scope !== 'work' || user.value.scopes.includes('work')).map(([scope, what]) => html`<label key=${scope} class="check"><input type="checkbox" name="scope" value=${scope} defaultChecked=${scope === 'read'} /> ${scope} <span class="hint">${what}</span></label>`)}</fieldset>
      <label for="namespace">Also threads whose id begins with (optional)</label><input id="namespace" name="namespace" maxlength="200" autocomplete="off" spellcheck="false" />
      <label for="days">Days until it ends (empty: never)</label><input id="days" name="days" type="number" min="1" max="3650" />
      <p class="buttons"><button type="submit">Create</button> <button type="button" class="quiet" onClick=${close}>Cancel</button></p>
    </form>
  <//>`;
}
