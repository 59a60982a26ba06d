// The page of alerts: their rules, this browser as a target, and the other targets.

import { html, useState } from '../vendor/preact.js';
import { client, may } from './account.js';
import { useLoad } from './load.js';
import { Action, Empty, Line, Problem, Status, Time } from './parts.js';
import { hasKey, idOf, obstacle, own, turnOff, turnOn } from './push.js';
import { Rules } from './rules.js';

// readPush returns what the server says and which subscription is this browser's; null without a target.
async function readPush(signal) {
  let push;
  try {
    push = await client.push({ signal });
  } catch (error) {
    if (error.code === 'not_found') return { push: null, mine: null, stale: false };
    throw error;
  }
  const made = await own();
  if (!made) return { push, mine: null, stale: false };
  const id = await idOf(made.endpoint);
  const found = push.subscriptions.find((s) => s.id === id && !s.gone && hasKey(made, push.public_key));
  return { push, mine: found?.id ?? null, stale: !found };
}

export function Alerts() {
  return html`<section class="page">
    <h1>Alerts</h1>
    <${Rules} />
    ${may('admin') && html`<${Push} />`}
  </section>`;
}

function Push() {
  const { data, error, reload } = useLoad(readPush, [], ['none']);
  return html`<${Problem} error=${error} retry=${reload} />
    ${data && !data.push && html`<h2>Browsers</h2><${Empty} title="Browsers get no alerts">The server has no target for them. Add one with <code>mailroom notify add push</code>.<//>`}
    ${data?.push && html`<${ThisBrowser} ...${data} reload=${reload} />
      <${Browsers} ...${data} reload=${reload} />`}`;
}

const OBSTACLES = {
  insecure: 'This page is not served with https, so the browser allows no alerts. Open the console with https, or on the machine of the server.',
  install: 'On this device, alerts come only to pages of the home screen: choose Share, then Add to Home Screen, and open Mailroom from there.',
  unsupported: 'This browser does not support alerts (Web Push). Use a current Firefox, Chrome, Edge or Safari.',
};

function ThisBrowser({ push, mine, stale, reload }) {
  const why = obstacle();
  const [permission, setPermission] = useState(why ? '' : Notification.permission);
  const on = Boolean(mine) && permission === 'granted';
  const act = (change) => async () => {
    try {
      await change();
    } finally {
      setPermission(Notification.permission);
      await reload();
    }
  };
  return html`<section aria-labelledby="this-browser">
    <h2 id="this-browser">This browser</h2>
    ${why ? html`<p><${Status} of="unavailable" text=${why === 'unsupported' ? 'Not supported' : 'Not possible here'} tone="warn" /></p><p>${OBSTACLES[why]}</p>`
      : permission === 'denied' ? html`<p><${Status} of="unavailable" text="Blocked" tone="bad" /></p><p>This browser blocks notifications of this page. Allow them in the settings of the page, beside its address, and reload.</p>`
        : html`<p><${Status} of=${on ? 'available' : 'idle'} text=${on ? 'On' : 'Off'} /></p>
          <p>${on ? 'Alerts are shown as notifications, also while no page is open. Signing out turns them off.' : `Show the alerts of ${push.target} as notifications, also while no page is open.`}</p>
          ${!on && stale && html`<p>This browser was removed, its session ended, or the key of the server changed: turn alerts on again.</p>`}
          <p>${on ? html`<${Action} run=${act(turnOff)}>Turn off<//>` : html`<${Action} kind="" run=${act(() => turnOn(push.public_key))}>Turn on<//>`}</p>`}
  </section>`;
}

function Browsers({ push, mine, reload }) {
  if (push.subscriptions.length === 0) return html`<${Empty} title="No browser gets alerts">Turn them on here, and in each other browser on its own page Alerts.<//>`;
  return html`<h2>Browsers</h2>
    <div class="table stacked" tabindex="0" role="region" aria-label="Browsers that get alerts"><table>
      <thead><tr><th>Browser</th><th>By</th><th>Since</th><th>State</th><th><span class="unseen">Actions</span></th></tr></thead>
      <tbody>${push.subscriptions.map((s) => html`<tr key=${s.id}>
        <th scope="row"><${Line} text=${s.client ?? 'Unknown'} />${s.id === mine && html` <span class="hint">this browser</span>`}</th>
        <td data-name="By"><${Line} text=${s.by} /></td><td data-name="Since"><${Time} at=${s.created_at} /></td>
        <td data-name="State">${s.gone ? html`<${Status} of="unavailable" text="Gone" />` : html`<${Status} of="available" text="On" />`}</td>
        <td><${Remove} subscription=${s} mine=${s.id === mine} reload=${reload} /></td>
      </tr>`)}</tbody>
    </table></div>`;
}

function Remove({ subscription, mine, reload }) {
  const [sure, setSure] = useState(false);
  const name = subscription.client ?? 'the browser';
  const remove = async () => {
    if (mine) await turnOff();
    else await client.unsubscribePush(subscription.id);
    await reload();
  };
  if (!sure) return html`<button type="button" class="quiet" aria-label=${`Remove ${name}`} onClick=${() => setSure(true)}>Remove…</button>`;
  return html`<${Action} label=${`Remove now: ${name}`} run=${remove}>Remove now<//> <button type="button" class="quiet" onClick=${() => setSure(false)}>Keep</button>`;
}
