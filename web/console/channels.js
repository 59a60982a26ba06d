// Connections to chat platforms.

import { html, useEffect } from '../vendor/preact.js';
import { client, may } from './account.js';
import { useLoad, useNow } from './load.js';
import { Action, Detail, Empty, Line, Problem, Status, Time } from './parts.js';
import { number } from './words.js';

// A failed connection is tried again: to its user it is not queued.
const STATES = { queued: 'reconnecting', gave_up: 'gave up' };

const REFRESH = 10; // seconds; a change of a connection is no entry

export function Channels() {
  const { data, error, reload } = useLoad((signal) => client.channels({ signal }), [], ['channel.']);
  const now = useNow(REFRESH);
  useEffect(() => { reload(); }, [now]);
  return html`<section class="page">
    <h1>Channels</h1>
    <${Problem} error=${error} retry=${reload} />
    ${data?.length === 0 && html`<${Empty} title="No channels">Connect a chat platform with <code>mailroom channels add</code>.<//>`}
    <ul class="cards">${data?.map((channel) => html`<li class="card" key=${channel.name}>
      <h2><${Line} text=${channel.name} /> <span class="hint">${channel.kind}</span> <${Status} of=${channel.state} tone=${channel.state === 'queued' ? 'warn' : undefined} text=${STATES[channel.state] ?? channel.state} /></h2>
      ${channel.reason && channel.reason !== channel.last_error && html`<p><${Line} text=${channel.reason} /></p>`}
      <dl class="details">
        ${channel.since && html`<${Detail} name="Since"><${Time} at=${channel.since} /><//>`}
        ${channel.last_success && html`<${Detail} name="Last answer of the platform"><${Time} at=${channel.last_success} /><//>`}
        ${channel.last_inbound && html`<${Detail} name="Last message received"><${Time} at=${channel.last_inbound} /><//>`}
        ${channel.last_outbound && html`<${Detail} name="Last message sent"><${Time} at=${channel.last_outbound} /><//>`}
        ${channel.attempts > 0 && html`<${Detail} name="Failed attempts">${number(channel.attempts)}<//>`}
        ${channel.next_try && html`<${Detail} name="Next attempt"><${Time} at=${channel.next_try} /><//>`}
        ${channel.last_error && html`<${Detail} name="Last error"><${Line} text=${channel.last_error} /> <span class="hint"><${Time} at=${channel.last_error_at} /></span><//>`}
      </dl>
      ${may('admin') && channel.state !== 'connected' && html`<p class="tools"><${Action} label=${`Reconnect now: ${channel.name}`} run=${async () => { await client.resumeChannel(channel.name); await reload(); }}>Reconnect now<//></p>`}
    </li>`)}</ul>
  </section>`;
}
