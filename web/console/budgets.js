// Budgets of days and months, and of the lives of threads: what agents, tokens and threads may use, what is used, and the questions about spent ones.

import { html, useState } from '../vendor/preact.js';
import { client, may } from './account.js';
import { address, go, link, term } from './address.js';
import { amounts, bounds, some } from './amounts.js';
import { useLoad } from './load.js';
import { Action, Empty, Line, Modal, Problem, Status, Time } from './parts.js';
import { Decide } from './question.js';
import { inZone } from './when.js';
import { number } from './words.js';

const keyOf = ({ kind, name, period }) => `${kind}:${name}:${period}`;

/** What kind of thing has a budget, in words. */
const kindOf = ({ kind }) => (kind === 'owner' ? 'token' : kind);

/** What has a budget, in words. */
const titleOf = (budget) => `${kindOf(budget)} ${budget.name}`;

const each = ({ period }) => (period === 'life' ? 'in its life' : `a ${period}`);

// readAll reads the budgets that the token sees, and the questions about them that it may decide.
async function readAll(signal) {
  const { items } = await client.budgets({ signal });
  const asked = items.some(({ question }) => question);
  const tickets = asked ? (await client.tickets({ q: 'thread:budget:* state:open', limit: 500, signal })).items : [];
  items.sort((a, b) => a.kind.localeCompare(b.kind) || a.name.localeCompare(b.name, undefined, { numeric: true }) || a.period.localeCompare(b.period));
  return { items, tickets: new Map(tickets.map((ticket) => [ticket.id, ticket])) };
}

/** @type {Record<string, { title: string, of: (budget: any) => boolean }>} */
const SHOW = {
  '': { title: 'All', of: () => true },
  spent: { title: 'Spent', of: ({ state }) => state === 'spent' },
  low: { title: 'Low', of: ({ state }) => state === 'low' },
  asked: { title: 'With a question', of: ({ question }) => Boolean(question) },
};

export function Budgets({ params }) {
  const { data, error, reload } = useLoad(readAll, [], ['step', 'ticket.', 'run.', 'x.budget.']);
  const show = Object.hasOwn(SHOW, params.show) ? params.show : '';
  const choose = (more) => go('budgets', '', { ...address.value.params, ...more }, { replace: true });
  const parts = (params.q ?? '').toLowerCase().split(' ').filter(Boolean);
  const named = (data?.items ?? []).filter((budget) => parts.every((part) => `${titleOf(budget)} ${budget.period}`.toLowerCase().includes(part)));
  const shown = named.filter(SHOW[show].of);
  const all = data?.items.length ?? 0;
  return html`<section class="page">
    <h1>Budgets</h1>
    <${Problem} error=${error} retry=${reload} />
    ${all > 0 && html`<div class="filter" role="search"><input type="search" aria-label="Filter budgets" placeholder="Part of the name of an agent, a token or a thread" value=${params.q ?? ''} maxlength="200" spellcheck="false" autocapitalize="none" autocomplete="off" onInput=${(event) => choose({ q: event.target.value })} /></div>
      <div class="tools">
        <span class="quick" role="group" aria-label="Common filters">${Object.entries(SHOW).map(([name, { title, of }]) => html`<button key=${name} type="button" class="chip" aria-pressed=${String(name === show)} onClick=${() => choose({ show: name })}>${title} <span class="count">${number(named.filter(of).length)}</span></button>`)}</span>
        <span class="gap"></span>
        <span class="count" aria-live="polite">${shown.length === all ? budgetsOf(all) : `${number(shown.length)} of ${budgetsOf(all)}`}</span>
      </div>`}
    ${data && all === 0 && html`<${First} />`}
    ${all > 0 && shown.length === 0 && html`<${Empty} title="No budgets match">Change the filter, or <a href=${link('budgets')}>show all budgets</a>.<//>`}
    ${shown.length > 0 && html`<${Table} budgets=${shown} tickets=${data.tickets} reload=${reload} />`}
  </section>`;
}

const budgetsOf = (n) => (n === 1 ? '1 budget' : `${number(n)} budgets`);

// First says how to give a first budget. An agent has it in the configuration, which a token other than the operator's may not see.
function First() {
  if (!may('admin')) return html`<${Empty} title="No budgets">You see the budgets of your own token and its threads, and of agents if you see all threads. None of these is set.<//>`;
  return html`<${Empty} title="No budgets">A budget bounds what an agent, a thread, or all runs in the threads of a token, may use in a day or a month. Once it is spent, nothing of it starts until a person raises it or the next period begins.<//>
    <ol class="first">
      <li><pre class="block" tabindex="0" aria-label="Command for a token">mailroom token create alice --scope read,submit --budget day=5usd</pre><span class="hint">A token with a budget of 5 dollars a day.</span></li>
      <li><pre class="block" tabindex="0" aria-label="Command for a thread">mailroom budget set thread:trip day 1usd</pre><span class="hint">A conversation with a budget of a dollar a day.</span></li>
      <li><pre class="block" tabindex="0" aria-label="Lines for an agent">[agents.coder]${'\n'}budget = { day = "5usd", month = "100usd" }</pre><span class="hint">An agent with two budgets, in mailroom.toml. Restart the server then.</span></li>
    </ol>`;
}

function Table({ budgets, tickets, reload }) {
  const asked = budgets.some(({ question }) => question);
  const title = (budget) => (budget.kind === 'owner' ? html`<${Line} text=${budget.name} />` : html`<a href=${budget.kind === 'agent' ? link('agent', budget.name) : link('runs', '', { q: term('thread', budget.name) })}><${Line} text=${budget.name} /></a>`);
  return html`<div class="table stacked budgets" tabindex="0" role="region" aria-label="Budgets"><table>
    <thead><tr><th>Budget of</th><th>State</th><th>Used</th><th>Begins again</th>${(asked || may('admin')) && html`<th>${asked ? 'Question' : html`<span class="unseen">Actions</span>`}</th>`}</tr></thead>
    <tbody>${budgets.map((budget) => html`<tr key=${keyOf(budget)} data-id=${budget.question || null} tabindex=${budget.question ? -1 : null}>
      <th scope="row"><span class="hint">${kindOf(budget)}</span> ${title(budget)} <span class="hint">${each(budget)}</span></th>
      <td data-name="State"><${State} of=${budget.state} /> <span class="hint">${HINTS[budget.state]}</span></td>
      <td data-name="Used"><${Used} budget=${budget} /></td>
      <td data-name="Again">${budget.period === 'life' ? html`<span class="hint">never</span>` : html`<span><${Line} text=${inZone(budget.end, budget.zone)} /></span> <span class="hint"><${Time} at=${budget.end} /></span>`}</td>
      ${(asked || may('admin')) && html`<td>${budget.question && html`<${Question} id=${budget.question} ticket=${tickets.get(budget.question)} />`}${may('admin') && html`<${Raising} budget=${budget} done=${reload} />`}</td>`}
    </tr>`)}</tbody>
  </table></div>`;
}

const HINTS = { open: '', low: '80 % used', spent: 'nothing starts' };

const State = ({ of }) => html`<${Status} of=${of} />`;

// Used shows each bound with a bar, which has no meaning that its text lacks.
function Used({ budget }) {
  return html`${bounds(budget).map(({ name, part, used, limit, left }) => html`<span key=${name} class="bound"><progress aria-hidden="true" max="1" value=${Math.min(part, 1)} data-tone=${part >= 1 ? 'bad' : part >= 0.8 ? 'warn' : 'good'}></progress> <span>${used} of ${limit}</span> <span class="hint">${left} left</span></span>`)}
    ${some(budget.raised) && html`<span class="bound hint">raised by ${amounts(budget.raised, budget.raised)}</span>`}`;
}

function Question({ id, ticket }) {
  if (!ticket) return html`<p class="hint">The operator is asked whether to raise it.${may('admin') && html` <a href=${link('inbox')}>Inbox</a>`}</p>`;
  const by = ticket.arguments?.raise;
  return html`<p><a href=${link('run', ticket.run)}>Raise it by ${by ? amounts(by, by) : 'the amount of the question'}?</a></p>
    <${Decide} key=${id} ticket=${ticket} />`;
}

// Raising raises a budget by hand.
function Raising({ budget, done }) {
  const [asking, setAsking] = useState(false);
  const [by, setBy] = useState('');
  const { kind, name, period } = budget;
  const raise = async () => {
    await client.raiseBudget({ kind, name, period, by: by.trim() });
    setAsking(false);
    setBy('');
    await done();
  };
  return html`<button type="button" class="quiet" aria-label=${`Raise the budget of ${titleOf(budget)} for this ${period}`} onClick=${() => setAsking(true)}>Raise…</button>
    ${asking && html`<${Modal} title=${`Raise the budget of ${titleOf(budget)}`} close=${() => setAsking(false)}>
      <p>It is ${budget.text}. What you add holds ${period === 'life' ? 'for its life' : `until ${inZone(budget.end, budget.zone)}`}, and runs that wait for it start at once.${budget.question && ' The open question about it is withdrawn.'}</p>
      <label for="by">Raise by</label>
      <input id="by" value=${by} placeholder="5usd" maxlength="200" autocomplete="off" spellcheck="false" autocapitalize="none" onInput=${(event) => setBy(event.target.value)} />
      <p class="buttons"><${Action} kind="" run=${raise}>Raise<//> <button type="button" class="quiet" onClick=${() => setAsking(false)}>Cancel</button></p>
    <//>`}`;
}

/** The budgets of an agent on its page. */
export function OfAgent({ budgets }) {
  return budgets.length > 0 && html`<dl class="details">${budgets.map((budget) => html`<div class="detail" key=${keyOf(budget)}><dt>Budget a ${budget.period}</dt>
    <dd><a href=${link('budgets', '', { q: titleOf(budget) })}><${State} of=${budget.state} /></a> <span class="hint">${HINTS[budget.state]}</span> <${Used} budget=${budget} /> <span class="hint">begins again <${Time} at=${budget.end} />${budget.question && ', a question is open'}</span></dd></div>`)}</dl>`;
}
