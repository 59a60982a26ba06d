// Schedules: what sends messages at its times, and what became of them.

import { html, useState } from '../vendor/preact.js';
import { client, may, user } from './account.js';
import { address, go, link } from './address.js';
import { useLoad } from './load.js';
import { Empty, Line, Problem, RunLink, Status, Time } from './parts.js';
import { Edit } from './schedule-form.js';
import { inZone, timesOf } from './when.js';
import { number } from './words.js';

const PAGE = 100;
const MOST = 1_000; // schedules that are read, each page of them by a request

async function readAll(signal) {
  const items = [];
  let cursor;
  do {
    const page = await client.schedules({ owner: may('admin') ? '*' : undefined, cursor, limit: PAGE, signal });
    items.push(...page.items);
    cursor = page.next;
  } while (cursor && items.length < MOST);
  items.sort((a, b) => a.name.localeCompare(b.name, undefined, { numeric: true }) || a.owner.localeCompare(b.owner));
  return { items, more: Boolean(cursor) };
}

/** The id of the page of a schedule. */
export const pageOf = ({ owner, name }) => `${owner}:${name}`;

/** Whether a schedule is the user's own, so that the user may change it. */
export const isOwn = ({ owner }) => owner === user.value.token;

/** Whether a run made a schedule for its own thread, or a person in a chat for that chat. No request can choose such a name. */
export const isOfThread = ({ name }) => name.startsWith('of.');

/** @type {Record<string, { title: string, of: (schedule: any) => boolean }>} */
const SHOW = {
  '': { title: 'All', of: () => true },
  trouble: { title: 'In trouble', of: ({ failures, paused }) => failures > 0 || paused?.by === 'server' },
  paused: { title: 'Paused', of: ({ paused }) => Boolean(paused) },
};

export function Schedules({ params }) {
  const { data, error, reload } = useLoad(readAll, [], ['x.schedule.', 'thread.']);
  const [making, setMaking] = useState(false);
  const show = Object.hasOwn(SHOW, params.show) ? params.show : '';
  const choose = (more) => go('schedules', '', { ...address.value.params, ...more }, { replace: true });
  const parts = (params.q ?? '').toLowerCase().split(' ').filter(Boolean);
  const named = (data?.items ?? []).filter(({ name, owner, spec }) => {
    const text = `${name} ${owner} ${spec.agent ?? ''} ${spec.thread ?? ''}`.toLowerCase();
    return parts.every((part) => text.includes(part));
  });
  const shown = named.filter(SHOW[show].of);
  const all = data?.items.length ?? 0;
  return html`<section class="page">
    <h1>Schedules</h1>
    <${Problem} error=${error} retry=${reload} />
    ${all > 0 && html`<div class="filter" role="search"><input type="search" aria-label="Filter schedules" placeholder="Part of a name, an agent or a thread" value=${params.q ?? ''} maxlength="200" spellcheck="false" autocapitalize="none" autocomplete="off" onInput=${(event) => choose({ q: event.target.value })} /></div>`}
    <div class="tools">
      ${may('submit') && html`<button type="button" onClick=${() => setMaking(true)}>New schedule…</button>`}
      ${all > 0 && html`<span class="quick" role="group" aria-label="Common filters">${Object.entries(SHOW).map(([name, { title, of }]) => html`<button key=${name} type="button" class="chip" aria-pressed=${String(name === show)} onClick=${() => choose({ show: name })}>${title} <span class="count">${number(named.filter(of).length)}</span></button>`)}</span>
        <span class="gap"></span>
        <span class="count" aria-live="polite">${shown.length === all ? schedulesOf(all) : `${number(shown.length)} of ${schedulesOf(all)}`}${data.more && ', and there are more'}</span>`}
    </div>
    ${data && all === 0 && html`<${Empty} title="No schedules">A schedule sends a message at its times: each weekday at 7, every 90 minutes, or once.<//>`}
    ${all > 0 && shown.length === 0 && html`<${Empty} title="No schedules match">Change the filter, or <a href=${link('schedules')}>show all schedules</a>.<//>`}
    ${shown.length > 0 && html`<${Table} schedules=${shown} />`}
    ${making && html`<${Edit} schedule=${null} close=${() => setMaking(false)} saved=${(name) => go('schedule', `${user.value.token}:${name}`)} />`}
  </section>`;
}

const schedulesOf = (n) => (n === 1 ? '1 schedule' : `${number(n)} schedules`);

function Table({ schedules }) {
  return html`<div class="table stacked schedules" tabindex="0" role="region" aria-label="Schedules"><table>
    <thead><tr><th>Schedule</th><th>Times</th><th>Next</th><th>Last result</th><th>Failures</th></tr></thead>
    <tbody>${schedules.map((schedule) => html`<tr key=${schedule.log}>
      <th scope="row"><a href=${link('schedule', pageOf(schedule))}><${Line} text=${schedule.name} /></a>${isOfThread(schedule) && html` <span class="hint">own schedule of thread <${Line} text=${schedule.spec.thread} /></span>`}${!isOwn(schedule) && html` <span class="hint">of <${Line} text=${schedule.owner} /></span>`}</th>
      <td data-name="Times"><${Line} text=${timesOf(schedule.spec)} /></td>
      <td data-name="Next"><${Next} schedule=${schedule} /></td>
      <td data-name="Last result"><${Result} result=${schedule.results.at(-1)} /></td>
      <td data-name="Failures">${number(schedule.failures)}</td>
    </tr>`)}</tbody>
  </table></div>`;
}

/** When a schedule sends next, or why it does not. */
export function Next({ schedule: { next_at: at, paused, spec } }) {
  if (paused) return html`<${Status} of="paused" /> <span class="hint">by <${Line} text=${paused.by} />, <${Time} at=${paused.at} />${paused.note && html`: <${Line} text=${paused.note} />`}</span>`;
  return at ? html`<span><${Line} text=${inZone(at, spec.zone)} /></span> <span class="hint"><${Time} at=${at} /></span>` : html`<span class="hint">never again</span>`;
}

/** What became of an occurrence. */
export function Result({ result }) {
  if (!result) return '–';
  const many = result.count > 1 ? ` ${number(result.count)} times` : '';
  return html`${result.skipped ? html`<${Status} of="skipped" text=${`skipped${many}: ${result.skipped}`} tone=${result.skipped === 'refused' ? 'bad' : 'idle'} />` : html`<${Status} of=${result.status} />`}
    ${result.run && html` <${RunLink} id=${result.run} />`}${result.error && html` <span class="hint"><${Line} text=${result.error} /></span>`}`;
}
