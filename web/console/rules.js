// The rules of alerts and their targets.

import { html, useState } from '../vendor/preact.js';
import { client, may } from './account.js';
import { useLoad } from './load.js';
import { Action, Empty, Line, Modal, Problem, Status, Time } from './parts.js';
import { number } from './words.js';

const WHEN = [
  ['ticket', 'an agent asks'], ['failed', 'a run failed for good'], ['channel', 'a channel is not connected'],
  ['paused', 'an agent was paused'], ['outage', 'runs of an agent wait because of an outage'],
  ['budget', '80 % of a budget are used'], ['schedule', 'a schedule paused itself'], ['digest', 'what happened'],
];
const EVENTS = new Map(/** @type {[string, string][]} */ (WHEN));
const TEXTS = [['none', 'only that something happened, and where'], ['title', 'the first line'], ['full', 'all that the target can show']];

export function Rules() {
  const { data, error, reload } = useLoad((signal) => client.alerts({ signal }), [], ['none']);
  const [editing, setEditing] = useState(null); // a rule, {} for a new one
  return html`<h2>Rules</h2>
    <${Problem} error=${error} retry=${reload} />
    ${data?.targets.length === 0 && html`<${Empty} title="No targets">${may('admin') ? html`Add one with <code>mailroom notify add</code>, which tests it.` : 'The operator can let your threads use a target.'}<//>`}
    ${data?.targets.length > 0 && html`<${Table} rules=${data.rules} edit=${setEditing} reload=${reload} />
      <p class="tools"><button type="button" onClick=${() => setEditing({})}>New rule…</button></p>
      <h2>Targets</h2><${Targets} targets=${data.targets} reload=${reload} />`}
    ${editing && html`<${Edit} rule=${editing} taken=${data.rules.map(({ name }) => name)} targets=${data.targets} close=${() => { setEditing(null); reload(); }} />`}`;
}

/** When digests come: at a time of the day, or each period. */
const comes = (digest) => (digest.includes(':') ? `at ${digest}` : `every ${digest}`);

const only = ({ agents = [], threads = [] }) => [...agents, ...threads.map((id) => `${id}…`)].join(', ');

function Table({ rules, edit, reload }) {
  if (rules.length === 0) return html`<${Empty} title="No rules">There are no alerts until a rule selects events.<//>`;
  return html`<div class="table stacked" tabindex="0" role="region" aria-label="Rules"><table>
    <thead><tr><th>Rule</th><th>When</th><th>To</th><th>Only for</th><th>Text</th><th>Quiet hours</th><th><span class="unseen">Actions</span></th></tr></thead>
    <tbody>${rules.map((rule) => html`<tr key=${rule.name}>
      <th scope="row"><${Line} text=${rule.name} /></th>
      <td data-name="When">${rule.when.map((of) => EVENTS.get(of) ?? of).join(', ')}${rule.when.includes('digest') && html` <span class="hint">${comes(rule.digest)}, ${rule.zone}</span>`}${rule.remind_after && html` <span class="hint">reminds after ${rule.remind_after}</span>`}</td>
      <td data-name="To"><${Line} text=${rule.to.join(', then ')} /></td><td data-name="Only for"><${Line} text=${only(rule) || '–'} /></td><td data-name="Text">${rule.text}</td>
      <td data-name="Quiet hours">${rule.quiet ? html`${rule.quiet} <span class="hint">${rule.zone}</span>` : '–'}</td>
      <td>${rule.fixed ? html`<span class="hint">in the configuration</span>` : html`<button type="button" class="quiet" aria-label=${`Change ${rule.name}`} onClick=${() => edit(rule)}>Change…</button> <${Remove} name=${rule.name} reload=${reload} />`}</td>
    </tr>`)}</tbody>
  </table></div>`;
}

function Remove({ name, reload }) {
  const [sure, setSure] = useState(false);
  if (!sure) return html`<button type="button" class="quiet" aria-label=${`Remove ${name}`} onClick=${() => setSure(true)}>Remove…</button>`;
  return html`<${Action} label=${`Remove now: ${name}`} run=${async () => { await client.deleteRule(name); await reload(); }}>Remove now<//> <button type="button" class="quiet" onClick=${() => setSure(false)}>Keep</button>`;
}

function Targets({ targets, reload }) {
  const admin = may('admin');
  return html`<div class="table stacked" tabindex="0" role="region" aria-label="Targets"><table>
    <thead><tr><th>Target</th><th>Kind</th><th>Decides</th>${admin && html`<th>State</th><th>Waiting</th><th>Last error</th><th><span class="unseen">Actions</span></th>`}</tr></thead>
    <tbody>${targets.map((target) => html`<tr key=${target.name}>
      <th scope="row"><${Line} text=${target.name} /></th><td data-name="Kind">${target.kind}</td><td data-name="Decides">${target.decide ? 'yes' : 'no'}</td>
      ${admin && html`<td data-name="State"><${Status} of=${target.paused ? 'paused' : 'available'} text=${target.paused ? 'Paused' : 'On'} /></td>
        <td data-name="Waiting">${number(target.waiting)}${target.oldest && html` <span class="hint">since <${Time} at=${target.oldest} /></span>`}</td><td data-name="Last error"><${Line} text=${target.last_error ?? '–'} /></td>
        <td><${Test} name=${target.name} /> ${target.paused
          ? html`<${Action} label=${`Resume ${target.name}`} run=${async () => { await client.resumeAgent(`alert:${target.name}`); await reload(); }}>Resume<//>`
          : html`<${Action} label=${`Pause ${target.name}`} run=${async () => { await client.pauseAgent(`alert:${target.name}`); await reload(); }}>Pause<//>`}</td>`}
    </tr>`)}</tbody>
  </table></div>`;
}

function Test({ name }) {
  const [said, setSaid] = useState('');
  const run = async () => {
    setSaid('');
    const sent = await client.testAlert(name);
    const late = AbortSignal.timeout(20_000);
    try {
      for await (const _ of client.follow({ run: sent.run, signal: late }));
    } catch (thrown) {
      if (!late.aborted) throw thrown;
    }
    const done = await client.run(sent.run);
    setSaid({ completed: 'It took the message.', failed: `It did not: ${done.error?.message ?? ''}` }[done.status] ?? 'It has not answered yet.');
  };
  return html`<${Action} label=${`Test ${name}`} run=${run}>Test<//> <span role="status" class="hint"><${Line} text=${said} /></span>`;
}

const here = Intl.DateTimeFormat().resolvedOptions().timeZone;
const list = (text) => String(text).split(/[\s,]+/).filter(Boolean);

function Edit({ rule, taken, targets, close }) {
  const [error, setError] = useState(null);
  const [quietFrom = '', quietTo = ''] = (rule.quiet ?? '').split('-');
  const kinds = WHEN.filter(([kind]) => may('admin') || ['ticket', 'failed', 'schedule'].includes(kind));
  const save = async (event) => {
    event.preventDefault();
    const form = new FormData(event.target);
    const [from, to] = [form.get('from'), form.get('until')];
    try {
      if (Boolean(from) !== Boolean(to)) throw new Error('Quiet hours need both times.');
      if (!rule.name && taken.includes(String(form.get('name')).trim())) throw new Error('There is a rule of this name: change that one, or use another name.');
      await client.putRule({
        name: String(form.get('name')).trim(), when: form.getAll('when'), to: [...new Set([form.get('to'), form.get('then'), ...(rule.to ?? []).slice(2)].filter(Boolean))],
        agents: list(form.get('agents')), threads: list(form.get('threads')), text: form.get('text'), quiet: from && to ? `${from}-${to}` : undefined,
        digest: form.get('digest') || undefined, outage: String(form.get('outage') ?? '').trim() || undefined, remind_after: String(form.get('remind')).trim() || undefined, zone: String(form.get('zone')).trim() || undefined,
      });
      close();
    } catch (thrown) {
      setError(thrown);
    }
  };
  return html`<${Modal} title=${rule.name ? `Rule ${rule.name}` : 'New rule'} close=${close}>
    <form class="stack" onSubmit=${save}>
      <${Problem} error=${error} />
      <label for="rule-name">Name</label><input id="rule-name" name="name" required maxlength="64" pattern="[A-Za-z0-9._\\-]+" autocomplete="off" spellcheck="false" defaultValue=${rule.name ?? ''} readonly=${Boolean(rule.name)} />
      <fieldset><legend>Tell when</legend>${kinds.map(([kind, what]) => html`<label key=${kind} class="check"><input type="checkbox" name="when" value=${kind} defaultChecked=${(rule.when ?? ['ticket']).includes(kind)} /> ${kind} <span class="hint">${what}</span></label>`)}</fieldset>
      <label for="rule-to">To</label><select id="rule-to" name="to">${targets.map(({ name }) => html`<option key=${name} selected=${rule.to?.[0] === name}>${name}</option>`)}</select>
      ${may('admin') && html`<label for="rule-then">When it is down, to</label><select id="rule-then" name="then"><option value="">nothing else</option>${targets.map(({ name }) => html`<option key=${name} selected=${rule.to?.[1] === name}>${name}</option>`)}</select>`}
      <label for="rule-agents">Only about these agents (empty: all)</label><input id="rule-agents" name="agents" autocomplete="off" spellcheck="false" defaultValue=${(rule.agents ?? []).join(', ')} />
      <label for="rule-threads">Only about threads whose id begins with (empty: all)</label><input id="rule-threads" name="threads" autocomplete="off" spellcheck="false" defaultValue=${(rule.threads ?? []).join(', ')} />
      <label for="rule-text">Text that leaves the server</label><select id="rule-text" name="text">${TEXTS.map(([text, what]) => html`<option key=${text} value=${text} selected=${(rule.text ?? 'title') === text}>${text}: ${what}</option>`)}</select>
      <label for="rule-from">Quiet from (empty: never)</label><input id="rule-from" name="from" type="time" defaultValue=${quietFrom} />
      <label for="rule-until">Quiet until</label><input id="rule-until" name="until" type="time" defaultValue=${quietTo} />
      <label for="rule-remind">Remind of an open question after (empty: never)</label><input id="rule-remind" name="remind" placeholder="30m" autocomplete="off" defaultValue=${rule.remind_after ?? ''} />
      ${may('admin') && html`<label for="rule-digest">Digest each day at a time, or each period such as 15m</label><input id="rule-digest" name="digest" placeholder="08:00" autocomplete="off" spellcheck="false" defaultValue=${rule.digest ?? '08:00'} />
        <label for="rule-outage">An outage is told after</label><input id="rule-outage" name="outage" placeholder="5m" defaultValue=${rule.outage ?? ''} />`}
      <label for="rule-zone">Time zone</label><input id="rule-zone" name="zone" autocomplete="off" spellcheck="false" defaultValue=${rule.zone ?? here} />
      <p class="buttons"><button type="submit">Save</button> <button type="button" class="quiet" onClick=${close}>Cancel</button></p>
    </form>
  <//>`;
}
