// One schedule: its next times, what became of the last ones, and what can be done about it.

import { html, useState } from '../vendor/preact.js';
import { client, may } from './account.js';
import { go, link } from './address.js';
import { useLoad } from './load.js';
import { Action, Block, Detail, Empty, Line, Modal, Problem, RunLink, Status, ThreadLink, Time } from './parts.js';
import { Edit, POLICIES } from './schedule-form.js';
import { isOfThread, isOwn, Next, Result } from './schedules.js';
import { inZone, timesOf } from './when.js';
import { number } from './words.js';

/** The page of the schedule whose owner and name, joined by a colon, are the id. */
export function SchedulePage({ id }) {
  const cut = id.indexOf(':');
  const [owner, name] = [id.slice(0, Math.max(cut, 0)), id.slice(cut + 1)];
  const { data, error, reload } = useLoad((signal) => client.schedule(name, { owner: owner || undefined, signal }), [id], ['x.schedule.', 'run.']);
  return html`<section class="page schedule">
    <h1><${Line} text=${name} /></h1>
    <${Problem} error=${error} retry=${reload} />
    ${data && error?.code !== 'not_found' && html`<${Present} schedule=${data} reload=${reload} />`}
    ${error?.code === 'not_found' && html`<p><a href=${link('schedules')}>All schedules</a></p>`}
  </section>`;
}

function Present({ schedule, reload }) {
  const { spec, note, next, paused, results, open } = schedule;
  const of = { owner: schedule.owner };
  return html`<p class="state">${paused ? html`<${Next} schedule=${schedule} />` : html`<${Status} of="available" text=${schedule.next_at ? 'on' : 'ended'} tone=${schedule.next_at ? 'good' : 'idle'} />`}</p>
    ${may('submit') && html`<p class="tools">
      ${paused ? html`<${Action} run=${async () => { await client.resumeSchedule(schedule.name, of); await reload(); }}>Resume<//>` : html`<${Pausing} schedule=${schedule} done=${reload} />`}
      <${Action} run=${async () => { await client.runSchedule(schedule.name, of); await reload(); }}>Run now<//>
      ${!schedule.from_file && isOwn(schedule) && !isOfThread(schedule) && html`<${Changing} schedule=${schedule} done=${reload} />`}
      ${!schedule.from_file && html`<${Deleting} schedule=${schedule} />`}
    </p>`}
    ${schedule.from_file && html`<p class="hint">It is in mailroom.toml: change or remove it there, and restart the server.</p>`}
    ${isOfThread(schedule) && html`<p class="hint">An own schedule of its thread: a run there made it, or a person in its chat. It ends with the thread.</p>`}
    <dl class="details">
      <${Detail} name="Times"><${Line} text=${timesOf(spec)} />${spec.cron && html` <span class="hint mono"><${Line} text=${spec.cron} /></span>`}<//>
      <${Detail} name="Zone"><${Line} text=${spec.zone || 'UTC'} /><//>
      ${note && html`<${Detail} name="Note"><${Line} text=${note} /><//>`}
      <${Detail} name="Agent">${spec.agent ? html`<a href=${link('agent', spec.agent)}><${Line} text=${spec.agent} /></a>` : 'that of the thread'}<//>
      <${Detail} name="Thread">${spec.thread ? html`<${ThreadLink} id=${spec.thread} />` : 'a new one each time'}<//>
      <${Detail} name="Owner"><${Line} text=${schedule.owner} /><//>
      <${Detail} name="Policies"><${Line} text=${policies(spec)} /><//>
      <${Detail} name="So far">${number(schedule.sent)} sent, ${number(schedule.skipped)} skipped, ${number(schedule.failures)} failed in a row<//>
    </dl>
    <h2>Message</h2>
    <${Block} value=${spec.text} label="Message" />
    <h2>Next times</h2>
    ${next.length === 0 && html`<${Empty} title="None">Its times are over.<//>`}
    ${next.length > 0 && paused && html`<p class="hint">Each is skipped if it is still paused.</p>`}
    ${next.length > 0 && html`<ol class="plain times">${next.map((at) => html`<li key=${at}><${Line} text=${inZone(at, spec.zone)} /> <span class="hint"><${Time} at=${at} /></span></li>`)}</ol>`}
    <h2>Last results</h2>
    ${open.map((run) => html`<p key=${run}><${Status} of="running" text="not ended" /> <${RunLink} id=${run} /></p>`)}
    ${results.length === 0 && open.length === 0 && html`<${Empty} title="Nothing was due yet">What was sent or skipped appears here.<//>`}
    ${results.length > 0 && html`<ol class="plain times">${results.toReversed().map((result, i) => html`<li key=${`${result.nominal} ${i}`}><span><${Line} text=${inZone(result.nominal, spec.zone)} /></span> <${Result} result=${result} /></li>`)}</ol>`}
    <p><a href=${`chat#${encodeURIComponent(schedule.log)}`}>Its log</a></p>`;
}

function policies(spec) {
  const of = POLICIES.map(([name, label, values]) => `${label[0].toLowerCase()}${label.slice(1)}: ${new Map(values).get(spec[name]) ?? spec[name]}`);
  return [...of, `at most ${spec.window} late`, ...(spec.jitter ? [`jitter ${spec.jitter}`] : []), ...(spec.timeout ? [`timeout ${spec.timeout}`] : []),
    spec.pause_after ? `paused after ${spec.pause_after} failures in a row` : 'not paused by failures'].join('; ');
}

function Pausing({ schedule, done }) {
  const [asking, setAsking] = useState(false);
  const [note, setNote] = useState('');
  const pause = async () => {
    await client.pauseSchedule(schedule.name, { owner: schedule.owner, note: note.trim() || undefined });
    setAsking(false);
    await done();
  };
  return html`<button type="button" class="quiet" onClick=${() => setAsking(true)}>Pause…</button>
    ${asking && html`<${Modal} title=${`Pause ${schedule.name}`} close=${() => setAsking(false)}>
      <p>It sends nothing until it is resumed. What is due until then is skipped.</p>
      <label for="note">Note (optional)</label>
      <input id="note" value=${note} maxlength="500" autocomplete="off" onInput=${(event) => setNote(event.target.value)} />
      <p class="buttons"><${Action} kind="" run=${pause}>Pause<//> <button type="button" class="quiet" onClick=${() => setAsking(false)}>Cancel</button></p>
    <//>`}`;
}

function Changing({ schedule, done }) {
  const [open, setOpen] = useState(false);
  return html`<button type="button" class="quiet" onClick=${() => setOpen(true)}>Change…</button>
    ${open && html`<${Edit} schedule=${schedule} close=${() => setOpen(false)} saved=${done} />`}`;
}

function Deleting({ schedule }) {
  const [sure, setSure] = useState(false);
  if (!sure) return html`<button type="button" class="quiet" onClick=${() => setSure(true)}>Delete…</button>`;
  return html`<${Action} run=${async () => { await client.deleteSchedule(schedule.name, { owner: schedule.owner }); go('schedules'); }}>Delete it with its log<//> <button type="button" class="quiet" onClick=${() => setSure(false)}>Keep</button>`;
}
