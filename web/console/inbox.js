// All questions that wait for a person, equal ones together.

import { html, useEffect, useLayoutEffect, useRef, useState } from '../vendor/preact.js';
import { client, may } from './account.js';
import { go } from './address.js';
import { advise, over, TITLES, waitingFor } from './decisions.js';
import { grouped, ORDERS } from './groups.js';
import { useLoad } from './load.js';
import { Empty, Line, Problem, Prompt } from './parts.js';
import { Row } from './question.js';
import { Together } from './together.js';
import { number } from './words.js';

const MOST = 2_000; // questions that are read
const [FIRST, MORE] = [5, 50]; // questions of a group that are shown at first, and added by a press
const GROUPS = 50; // groups that are shown at first, and added by a press
const SETTLE = 400; // milliseconds after which a pointer may decide again when lines have moved
const KINDS = { approval: 'Approvals', input: 'Questions', event: 'Events' };

/** The open tickets that a person can decide, the oldest first. */
async function openTickets(signal) {
  const found = [];
  let cursor;
  do {
    const page = await client.tickets({ q: 'state:open kind:approval,input,event', cursor, limit: 500, signal });
    found.push(...page.items);
    cursor = page.next;
  } while (cursor && found.length < MOST);
  return { tickets: found.reverse(), cut: Boolean(cursor) };
}

export function Inbox({ params }) {
  const { data, error, reload } = useLoad(openTickets, [], ['ticket.', 'run.cancelled', 'run.failed']);
  const { agent = '', kind = '', sort = 'oldest' } = params;
  const [shown, setShown] = useState({}); // key of a group: number of its questions that are shown
  const [groupsShown, setGroupsShown] = useState(GROUPS);
  const [at, setAt] = useState(null); // id of the selected question
  const [together, setTogether] = useState(null); // { group, decision }
  const list = useRef(null);
  const decided = over.value;
  useEffect(() => { if (decided.size > 0) reload(); }, [decided]);

  const open = (data?.tickets ?? []).filter(({ id }) => !decided.has(id));
  const all = grouped(open, { agent, kind, sort });
  const groups = all.slice(0, groupsShown);
  const visible = groups.flatMap(({ key, tickets }) => tickets.slice(0, shown[key] ?? FIRST));
  const moved = useMoved(list, visible, data, decided);
  useKeys({ list, visible, groups, at, setAt, setTogether });
  const shows = all.reduce((sum, { tickets }) => sum + tickets.length, 0);
  return html`<section class="page inbox">
    <h1>Inbox</h1>
    <${Problem} error=${error} retry=${reload} />
    ${data && (open.length > 0 || agent || kind) && html`<${Choose} tickets=${open} agent=${agent} kind=${kind} sort=${sort} shows=${shows} groups=${all.length} cut=${data.cut} />`}
    ${data && open.length === 0 && html`<${Empty} title="Nothing waits for you">Questions and approvals of agents appear here as soon as they are asked.<//>`}
    ${open.length > 0 && shows === 0 && html`<${Empty} title="No question matches">Choose another agent or kind, or <a href="#/inbox">show all questions</a>.<//>`}
    <ol class="tickets" ref=${list} tabindex="-1" aria-label="Questions" onClickCapture=${moved}>${groups.map((group) => html`<${Group} key=${group.key} group=${group} at=${at} setAt=${setAt} count=${shown[group.key] ?? FIRST}
      more=${() => setShown((old) => ({ ...old, [group.key]: (old[group.key] ?? FIRST) + MORE }))} decideAll=${(decision) => setTogether({ group, decision })} />`)}</ol>
    ${all.length > groups.length && html`<p><button type="button" class="quiet" onClick=${() => setGroupsShown(groupsShown + GROUPS)}>Show ${number(Math.min(GROUPS, all.length - groups.length))} more</button></p>`}
    ${together && html`<${Together} ...${together} close=${() => setTogether(null)} />`}
  </section>`;
}

function Choose({ tickets, agent, kind, sort, shows, groups, cut }) {
  const choose = (change) => go('inbox', '', { agent, kind, sort: sort === 'oldest' ? '' : sort, ...change }, { replace: true });
  const names = [...new Set([...tickets.map((ticket) => ticket.agent), agent])].filter(Boolean).sort();
  const of = (key, value) => number(tickets.filter((ticket) => ticket[key] === value).length);
  const select = (label, value, options, change) => html`<select aria-label=${label} value=${value} onChange=${(event) => choose(change(event.target.value))}>
    ${options.map(([name, text]) => html`<option key=${name} value=${name} selected=${name === value}>${text}</option>`)}</select>`;
  return html`<div class="tools choose">
    ${select('Agent', agent, [['', 'All agents'], ...names.map((name) => [name, html`<${Line} text=${name} /> (${of('agent', name)})`])], (to) => ({ agent: to }))}
    ${select('Kind', kind, [['', 'All kinds'], ...Object.entries(KINDS).map(([name, text]) => [name, `${text} (${of('kind', name)})`])], (to) => ({ kind: to }))}
    ${select('Order', sort, Object.entries(ORDERS), (to) => ({ sort: to === 'oldest' ? '' : to }))}
    <span class="count" role="status">${number(shows)} ${shows === 1 ? 'question' : 'questions'}${groups < shows ? ` in ${number(groups)} ${groups === 1 ? 'group' : 'groups'}` : ''}${cut ? `, the newest ${number(MOST)} are read` : ''}</span>
  </div>`;
}

function Group({ group, at, setAt, count, more, decideAll }) {
  const { agent, kind, action, prompt, differ, tickets } = group;
  const left = tickets.length - count;
  const several = tickets.length > 1;
  return html`<li class=${several ? 'card group' : 'card group one'}>
    <div class="asked">
      <div class="text">
        <p class="meta"><strong>${several ? `${number(tickets.length)} ${KINDS[kind].toLowerCase()}` : TITLES[kind]}</strong> <span class="agent"><${Line} text=${agent} /></span>${action && html` <code><${Line} text=${action} /></code>`}</p>
        <${Prompt} text=${prompt} />
      </div>
      ${several && may('decide') && html`<div class="both all">${kind === 'approval'
        ? html`<button type="button" class="approve-all" onClick=${() => decideAll('approve')}>Approve all ${number(tickets.length)}…</button><button type="button" class="quiet deny-all" onClick=${() => decideAll('deny')}>Deny all…</button>`
        : html`<button type="button" class="answer-all" onClick=${() => decideAll('answer')}>Answer all ${number(tickets.length)}…</button>`}</div>`}
    </div>
    <ol class="questions">${tickets.slice(0, count).map((ticket) => html`<${Row} key=${ticket.id} ticket=${ticket} own=${differ} selected=${ticket.id === at} select=${() => setAt(ticket.id)} />`)}</ol>
    ${left > 0 && html`<p><button type="button" class="link" onClick=${more}>Show ${left > MORE ? `${MORE} of ${number(left)} more` : `${number(left)} more`}</button></p>`}
  </li>`;
}

// useMoved returns a handler that stops a click which comes just after new data has moved lines: it was meant for another
// one.
function useMoved(list, visible, data, decided) {
  const last = useRef({ ids: '', at: -SETTLE, focused: false, data, decided });
  const ids = visible.map(({ id }) => id).join(' ');
  useLayoutEffect(() => {
    const news = last.current.data !== data || last.current.decided !== decided;
    if (news && last.current.ids && !ids.startsWith(last.current.ids)) last.current.at = performance.now();
    Object.assign(last.current, { ids, data, decided });
    if (document.activeElement === document.body && last.current.focused) list.current?.focus({ preventScroll: true });
    last.current.focused = list.current?.contains(document.activeElement);
  });
  return (event) => {
    if (event.detail === 0 || performance.now() - last.current.at > SETTLE || !event.target.closest('.both button')) return;
    event.stopPropagation();
    advise('The list has just changed. Press again.');
  };
}

// useKeys selects questions with j and k, and decides the selected one. A decision selects no other: the same key
// pressed twice must not decide two questions.
function useKeys({ list, setTogether, ...state }) {
  const now = useRef(null);
  now.current = state; // what the keys are about, also for one that is pressed before the page is drawn again
  const place = useRef(0); // of the question that was selected last
  const selected = state.visible.findIndex(({ id }) => id === state.at);
  if (selected >= 0) place.current = selected;
  useLayoutEffect(() => {
    const row = (id) => list.current?.querySelector(`[data-id="${CSS.escape(id)}"]`);
    const select = (step) => {
      const { visible, at, setAt } = now.current;
      const from = visible.findIndex(({ id }) => id === at);
      const to = from >= 0 ? from + step : place.current + Math.min(step, 0); // the next of one that is gone has its place
      const { id } = visible[Math.min(Math.max(to, 0), visible.length - 1)];
      now.current.at = id;
      setAt(id);
      row(id)?.focus();
    };
    const decideOne = (button) => {
      const { visible, at } = now.current;
      if (!visible.some(({ id }) => id === at)) advise('Select a question first: press j.');
      else if (waitingFor(at)) advise('Its decision waits already. Press u to undo it.');
      const found = row(at ?? '')?.querySelector(button);
      if (found?.matches('input')) found.focus();
      else found?.click();
    };
    const decideGroup = (decision) => {
      const { groups, at } = now.current;
      const group = groups.length === 1 ? groups[0] : groups.find(({ tickets }) => tickets.some(({ id }) => id === at));
      if (!group) advise('Select a question of the group first: press j.');
      else if (group.kind === 'approval') setTogether({ group, decision });
      else if (decision === 'approve') setTogether({ group, decision: 'answer' });
    };
    const keys = {
      j: () => select(1), k: () => select(-1), d: () => decideOne('button.deny'),
      a: () => decideOne('button.approve, :scope:not([data-kind="approval"]) .decide input'),
      A: () => decideGroup('approve'), D: () => decideGroup('deny'),
    };
    const press = (event) => {
      const { key, target, ctrlKey, metaKey, altKey } = event;
      if (ctrlKey || metaKey || altKey || target.closest('input, textarea, select, dialog') || now.current.visible.length === 0) return;
      if (!keys[key] || (key !== 'j' && key !== 'k' && !may('decide'))) return;
      event.preventDefault(); // the letter is not part of the answer in a field that gets the focus now
      keys[key]();
    };
    addEventListener('keydown', press);
    return () => removeEventListener('keydown', press);
  }, []);
}
