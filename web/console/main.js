// The console: what all agents do, for operators.

import { html, render, useEffect, useLayoutEffect, useRef, useState } from '../vendor/preact.js';
import { client, leave, may, paste, pending, refusal, resolve, start, started, user } from './account.js';
import { address, go, link } from './address.js';
import { AgentPage } from './agent.js';
import { Agents } from './agents.js';
import { Alerts } from './alerts.js';
import { Audit } from './audit.js';
import { Budgets } from './budgets.js';
import { Channels } from './channels.js';
import { Failures } from './failures.js';
import { Inbox } from './inbox.js';
import { findTracker, Issues, tracked } from './issues.js';
import { connection, end, follow } from './live.js';
import { useLoad, useNow } from './load.js';
import { Overview } from './overview.js';
import { Boundary, Line, Modal } from './parts.js';
import { turnOff } from './push.js';
import { Report } from './report.js';
import { RunPage } from './run.js';
import { Runs } from './runs.js';
import { SchedulePage } from './schedule.js';
import { Schedules } from './schedules.js';
import { Search } from './search.js';
import { Tail } from './tail.js';
import { Threads } from './threads.js';
import { Tokens } from './tokens.js';
import { Decisions, Unsent } from './undo.js';
import { duration, number } from './words.js';

// name: in the address; key: pressed after g, it opens the page; scope: the token needs it to see the page; when: a
// signal, and the page is hidden while it is false.
const PAGES = [
  { name: 'overview', title: 'Overview', key: 'o', scope: 'read', page: Overview },
  { name: 'report', title: 'Report', key: 'p', scope: 'read', page: Report },
  { name: 'inbox', title: 'Inbox', key: 'i', scope: 'read', page: Inbox },
  { name: 'runs', title: 'Runs', key: 'r', scope: 'read', page: Runs },
  { name: 'failures', title: 'Failures', key: 'f', scope: 'read', page: Failures },
  { name: 'threads', title: 'Threads', key: 't', scope: 'read', page: Threads },
  { name: 'search', title: 'Search', key: 's', scope: 'read', page: Search },
  { name: 'tail', title: 'Tail', key: 'l', scope: 'read', page: Tail },
  { name: 'agents', title: 'Agents', key: 'a', scope: 'read', page: Agents },
  { name: 'schedules', title: 'Schedules', key: 'h', scope: 'read', page: Schedules },
  { name: 'budgets', title: 'Budgets', key: 'm', scope: 'read', page: Budgets },
  { name: 'channels', title: 'Channels', key: 'c', scope: 'read', page: Channels },
  { name: 'issues', title: 'Issues', key: 'b', scope: 'admin', when: tracked, page: Issues },
  { name: 'alerts', title: 'Alerts', key: 'n', scope: 'read', page: Alerts },
  { name: 'audit', title: 'Audit', key: 'u', scope: 'admin', page: Audit },
  { name: 'tokens', title: 'Tokens', key: 'k', scope: '', page: Tokens },
];

const HIDDEN = {
  run: { name: 'run', title: 'Run', page: RunPage, under: 'runs' },
  agent: { name: 'agent', title: 'Agent', page: AgentPage, under: 'agents' },
  schedule: { name: 'schedule', title: 'Schedule', page: SchedulePage, under: 'schedules' },
};

function App() {
  if (!started.value) return html`<p class="empty" role="status">Opening… <span class="late">The server has not answered yet. The page tries again.</span></p>`;
  if (pending.value) return html`<${Agree} />`;
  return user.value ? html`<${Console} />` : html`<${SignIn} />`;
}

// Agree asks before a link signs in: the maker of the link would see what the user writes and decides.
function Agree() {
  const { link } = pending.value;
  const present = user.value?.token;
  const name = html`<strong><${Line} text=${link.token} /></strong>`;
  return html`<main class="sign-in">
    <form onSubmit=${(event) => event.preventDefault()}>
      <h1>Sign in as <${Line} text=${link.token} />?</h1>
      <p>${link.made_by === 'session' ? html`A session of ${name}${link.client && html` in <${Line} text=${link.client} />`}` : html`The token ${name}`} made this link. It signs this browser in as ${name}, who may ${link.scopes.join(', ') || 'nothing any more'}.</p>
      <p>${present ? html`This tab is signed in as <strong><${Line} text=${present} /></strong>. ` : ''}Use the link only if you made it: its maker sees what you do here.</p>
      <p class="buttons"><button type="button" class="quiet" autofocus onClick=${() => resolve(false)}>${present ? 'Stay signed in' : 'Cancel'}</button> <button type="button" onClick=${() => resolve(true)}>Sign in</button></p>
    </form>
  </main>`;
}

function SignIn() {
  const [busy, setBusy] = useState(false);
  const enter = async (event) => {
    event.preventDefault();
    setBusy(true);
    await paste(String(new FormData(event.target).get('token')).trim());
    setBusy(false);
  };
  return html`<main class="sign-in">
    <form onSubmit=${enter}>
      <h1>Sign in to Mailroom</h1>
      ${refusal.value && html`<p class="problem" role="alert">${refusal.value}</p>`}
      <${Unsent} />
      <p>Run <code>mailroom open</code> on the machine of the server: it prints a link that signs this browser in.</p>
      <label for="token">Or paste a token</label>
      <input id="token" name="token" type="password" required autocomplete="off" spellcheck="false" autocapitalize="none" autofocus />
      <p class="hint">This page keeps a token only in the open tabs of this browser.</p>
      <button type="submit" disabled=${busy}>Sign in</button>
    </form>
  </main>`;
}

function Console() {
  const { page: name } = address.value;
  const [menu, setMenu] = useState(false);
  const [help, setHelp] = useState(false);
  const main = useRef(null);
  const pages = PAGES.filter(({ scope, when }) => (!scope || may(scope)) && (when?.value ?? true));
  const open = HIDDEN[name] ?? pages.find((page) => page.name === name) ?? pages[0];
  useEffect(() => {
    follow();
    findTracker();
    return end;
  }, [user.value]);
  useEffect(() => {
    document.title = `${open.title} · Mailroom`;
    setMenu(false);
    main.current?.focus({ preventScroll: true });
    main.current?.scrollTo(0, 0);
  }, [open, address.value.id]);
  useShortcuts(pages, () => setHelp((on) => !on));
  return html`
    <a class="skip" href="#main" onClick=${(event) => { event.preventDefault(); main.current.focus(); }}>Skip to the page</a>
    <div class=${`console ${menu ? 'menu-open' : ''}`}>
      <header class="topbar">
        <button type="button" class="quiet menu" aria-expanded=${String(menu)} aria-controls="nav" onClick=${() => setMenu(!menu)}>Menu</button>
        <strong>${open.title}</strong>
        <${Connection} />
      </header>
      <nav id="nav" aria-label="Pages">
        <a class="brand" href=${link('overview')}>Mailroom</a>
        <ul>${pages.map((page) => html`<li key=${page.name}><a href=${link(page.name)} aria-current=${page === open || page.name === open.under ? 'page' : null}>${page.title}${page.name === 'inbox' && html`<${Waiting} />`}</a></li>`)}
          <li><a href="chat">Chat</a></li>
          <li><a href="docs/">Manual</a></li>
          <li><a href="docs/api">API reference</a></li>
        </ul>
        <footer>
          <${Connection} />
          <p class="hint"><${Line} text=${user.value.token} />${user.value.kind === 'session' ? '' : ', with a token'}</p>
          <button type="button" class="quiet" onClick=${() => setHelp(true)}>Keys</button>
          <button type="button" class="quiet" onClick=${signOut}>Sign out</button>
        </footer>
      </nav>
      <main id="main" tabindex="-1" ref=${main} aria-label=${open.title}>
        <${Boundary} key=${`${open.name} ${open.under ? address.value.id : ''}`}>
          <${open.page} id=${address.value.id} params=${address.value.params} />
        <//>
      </main>
      <${Decisions} />
    </div>
    ${help && html`<${Help} pages=${pages} close=${() => setHelp(false)} />`}`;
}

// signOut ends the session. It also ends the alerts of this browser, because its next user may be another person.
async function signOut() {
  await turnOff().catch(() => {}); // it is off here; the push service tells the server with the next alert
  await leave();
}

// Waiting shows the number of open questions.
function Waiting() {
  const { data } = useLoad((signal) => client.tickets({ q: 'state:open', limit: 100, signal }), [], ['ticket.', 'run.']);
  const n = data?.items.filter(({ kind }) => kind === 'approval' || kind === 'input').length ?? 0;
  return n > 0 && html`<span class="badge" aria-label=${`${n} open questions`}>${data.next ? `${number(n)}+` : number(n)}</span>`;
}

function Connection() {
  const now = useNow(5);
  const { state, since } = connection.value;
  const text = { live: 'Live', connecting: 'Connecting', waiting: `Reconnecting for ${duration(now - since)}` }[state];
  return html`<span class="status connection" data-tone=${state === 'live' ? 'good' : 'warn'} role="status"><span class="dot" aria-hidden="true"></span>${text}</span>`;
}

// useShortcuts opens pages with g and a letter, and the help with a question mark.
function useShortcuts(pages, help) {
  useLayoutEffect(() => { // with what a user sees: an effect would come after it, and lose the first key
    let armed = false;
    const press = (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest('input:not([type="checkbox"]), textarea, select, dialog')) return;
      const page = armed && pages.find(({ key }) => key === event.key);
      armed = event.key === 'g';
      if (page) go(page.name);
      else if (event.key === '?') help();
      else if (event.key === '/') {
        /** @type {HTMLElement | null} */ (document.querySelector('main input[type="search"]'))?.focus();
        event.preventDefault();
      }
    };
    addEventListener('keydown', press);
    return () => removeEventListener('keydown', press);
  }, [pages.length]);
}

function Help({ pages, close }) {
  const keys = [
    ...pages.map(({ key, title }) => [`g ${key}`, title]), ['/', 'Filter'], ['j, k', 'Next and previous row or question'],
    ['x', 'Select the row (runs)'], ['↑, ↓, ←, →', 'Move in the time of a run, open and close; Enter shows details'], ['a, d', 'Approve or deny the question (inbox); a begins an answer'],
    ['A, D', 'Approve or deny all of its group'], ['u', 'Undo the last decision, within 5 seconds'], ['?', 'These keys'],
  ];
  return html`<${Modal} title="Keys" close=${close}>
    <dl class="keys">${keys.map(([key, what]) => html`<div key=${key}><dt><kbd>${key}</kbd></dt><dd>${what}</dd></div>`)}</dl>
    <p><button type="button" onClick=${close}>Close</button></p>
  <//>`;
}

render(html`<${App} />`, document.getElementById('app'));
start();
