// The form that makes or changes a schedule. The server checks it, and the form shows what it refuses.

import { html, useRef, useState } from '../vendor/preact.js';
import { client } from './account.js';
import { useLoad } from './load.js';
import { Line, Modal, Problem } from './parts.js';
import { offered } from './when.js';

const here = Intl.DateTimeFormat().resolvedOptions().timeZone;
const zones = () => (typeof Intl.supportedValuesOf === 'function' ? Intl.supportedValuesOf('timeZone') : []);

const KINDS = { cron: 'At times of the clock', every: 'At an interval', at: 'Once' };
/**
 * The policies of a schedule: their names, labels and values.
 * @type {[string, string, [string, string][]][]}
 */
export const POLICIES = [
  ['busy', 'If other work keeps the thread busy', [['queue', 'wait in its queue'], ['steer', 'give it to the current run'], ['skip', 'skip']]],
  ['overlap', 'If a run of the schedule is open', [['skip', 'skip'], ['one', 'send the last one at its end'], ['all', 'send each']]],
  ['catch_up', 'After a time without a server', [['one', 'send the last one'], ['none', 'skip'], ['all', 'send each']]],
];
const BOUNDS = [
  ['window', 'How late a message may be', '1h'], ['jitter', 'Send up to this much later', '5m'], ['timeout', 'How long a run may take (empty: no bound)', '2h'],
];

/** A moment as the value of an input of local time. */
function local(time) {
  const at = new Date(time);
  return new Date(at.getTime() - at.getTimezoneOffset() * 60_000).toISOString().slice(0, 19);
}

/** What the form says, on top of what it has no field for. */
function specOf(form, before) {
  const text = (name) => String(form.get(name) ?? '').trim() || undefined;
  const { cron: _c, every: _e, at: _a, anchor, ...kept } = before;
  const kind = form.get('kind');
  const spec = { ...kept, text: String(form.get('text')), agent: text('agent'), thread: text('thread'), zone: kind === 'cron' ? text('zone') : undefined };
  if (kind === 'at') {
    const at = form.get('at') ? new Date(String(form.get('at'))) : null;
    spec.at = at && !Number.isNaN(at.valueOf()) ? at.toISOString() : '';
  } else {
    spec[kind] = text(kind) ?? '';
  }
  if (kind === 'every' && before.every === spec.every) spec.anchor = anchor;
  for (const [name] of POLICIES) spec[name] = text(name);
  for (const [name] of BOUNDS) spec[name] = text(name);
  spec.pause_after = Number(form.get('pause_after') || 0);
  return spec;
}

/** schedule: the one to change, null for a new one. saved gets the name. */
export function Edit({ schedule, close, saved }) {
  const before = schedule?.spec ?? { text: '' };
  const form = useRef(null);
  const [error, setError] = useState(null);
  const [kind, setKind] = useState(before.every ? 'every' : before.at ? 'at' : 'cron');
  const { data: agents } = useLoad((signal) => client.agents({ signal }), [], ['none']);
  const refused = error?.fields?.[0];
  const instead = offered(refused?.message);
  const save = async (event) => {
    event.preventDefault();
    const given = new FormData(event.target);
    const name = String(given.get('name')).trim();
    try {
      if (!schedule) await refuseTaken(name);
      await client.putSchedule(name, specOf(given, before));
      await saved(name);
      close();
    } catch (thrown) {
      setError(thrown);
    }
  };
  const use = () => {
    form.current.elements.cron.value = instead;
    setError(null);
    form.current.elements.cron.focus();
  };
  const select = (name, label, values) => html`<label for=${`schedule-${name}`}>${label}</label><select id=${`schedule-${name}`} name=${name}>${values.map(([value, what]) => html`<option key=${value} value=${value} selected=${(before[name] ?? values[0][0]) === value}>${what}</option>`)}</select>`;
  const input = (name, label, more = {}) => html`<label for=${`schedule-${name}`}>${label}</label><input id=${`schedule-${name}`} name=${name} autocomplete="off" spellcheck="false" defaultValue=${before[name] ?? ''} ...${more} />`;
  return html`<${Modal} title=${schedule ? `Change ${schedule.name}` : 'New schedule'} close=${close}>
    <form class="stack" ref=${form} onSubmit=${save}>
      ${refused ? html`<p class="problem" role="alert"><${Line} text=${`${refused.location.replace(/^body\.(spec\.)?/, '')}: ${refused.message}`} /> ${instead && html`<button type="button" class="link" onClick=${use}>Use <${Line} text=${instead} /></button>`}</p>` : html`<${Problem} error=${error} />`}
      <label for="schedule-name">Name</label><input id="schedule-name" name="name" required maxlength="60" autocomplete="off" spellcheck="false" autocapitalize="none" defaultValue=${schedule?.name ?? ''} readonly=${Boolean(schedule)} />
      <fieldset><legend>Times</legend>${Object.entries(KINDS).map(([name, title]) => html`<label key=${name} class="check"><input type="radio" name="kind" value=${name} checked=${kind === name} onChange=${() => setKind(name)} /> ${title}</label>`)}</fieldset>
      ${kind === 'cron' && html`${input('cron', 'Minute, hour, day of month, month, day of week', { placeholder: '0 7 * * 1-5', class: 'mono', required: true, autocapitalize: 'none' })}
        <label for="schedule-zone">Time zone</label><input id="schedule-zone" name="zone" list="zones" autocomplete="off" spellcheck="false" defaultValue=${schedule ? before.zone ?? 'UTC' : here} /><datalist id="zones">${zones().map((zone) => html`<option key=${zone} value=${zone} />`)}</datalist>`}
      ${kind === 'every' && input('every', 'Every', { placeholder: '90m', required: true })}
      ${kind === 'at' && html`<label for="schedule-at">At, in the time of this browser</label><input id="schedule-at" name="at" type="datetime-local" step="1" required defaultValue=${before.at ? local(before.at) : ''} />`}
      <label for="schedule-text">Message</label><textarea id="schedule-text" name="text" rows="3" required defaultValue=${before.text}></textarea>
      ${input('agent', 'Agent (empty: that of the thread)', { list: 'agents', autocapitalize: 'none' })}<datalist id="agents">${(agents ?? []).map(({ name }) => html`<option key=${name} value=${name} />`)}</datalist>
      ${input('thread', 'Thread (empty: a new one each time)', { maxlength: 200, autocapitalize: 'none' })}
      <details><summary>Policies</summary><div class="stack">
        ${POLICIES.map(([name, label, values]) => select(name, label, values))}
        ${BOUNDS.map(([name, label, placeholder]) => input(name, label, { placeholder }))}
        <label for="schedule-pause_after">Failures in a row that pause it (0: none)</label><input id="schedule-pause_after" name="pause_after" type="number" min="0" defaultValue=${before.pause_after ?? 5} />
      </div></details>
      <p class="buttons"><button type="submit">Save</button> <button type="button" class="quiet" onClick=${close}>Cancel</button></p>
    </form>
  <//>`;
}

/** Throws if the user has a schedule of a name: a new one would replace it. */
async function refuseTaken(name) {
  const found = await client.schedule(name).catch((error) => {
    if (error.code === 'not_found' || error.code === 'invalid') return null; // the server says what is wrong with the name
    throw error;
  });
  if (found) throw new Error('There is a schedule of this name: change that one, or use another name.');
}
