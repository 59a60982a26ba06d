// The page Search: finds messages by their words.

import { html, useEffect, useLayoutEffect, useState } from '../vendor/preact.js';
import { client, lose } from './account.js';
import { go } from './address.js';
import { Empty, Line, Problem, RunLink, ThreadLink, Time } from './parts.js';

const PAGE = 20; // messages that are shown at first, and added by each click

export function Search({ params }) {
  const q = params.q ?? '';
  const [text, setText] = useState(q);
  const [turn, setTurn] = useState({ q, wanted: PAGE, again: 0 });
  const wanted = turn.q === q ? turn.wanted : PAGE;
  const found = useSearch(q, wanted, turn.again);
  useLayoutEffect(() => setText(q), [q]); // an effect would come after what a fast user types
  const submit = (event) => {
    event.preventDefault();
    go('search', '', { q: text.trim() });
    setTurn({ q: text.trim(), wanted: PAGE, again: turn.again + 1 });
  };
  return html`<section class="page">
    <h1>Search</h1>
    <form class="filter" role="search" onSubmit=${submit}>
      <input type="search" aria-label="Words of a message" placeholder="Words of a message" value=${text} maxlength="1000" autocomplete="off" autofocus onInput=${(event) => setText(event.target.value)} />
      <button type="submit" class="quiet">Search</button>
    </form>
    <${Problem} error=${found.error} retry=${() => setTurn({ ...turn, q, again: turn.again + 1 })} />
    <p class="hint" role="status">${state(q, found)}</p>
    ${!q && html`<${Empty} title="Search all messages">Type words of a message, of a person or an agent. Words are found whole, in upper or lower case and in any order.<//>`}
    ${q && found.done && found.items.length === 0 && !found.error && html`<${Empty} title="No message has all of these words">Words are found whole, in upper or lower case and in any order. Deleted and expired messages are not found.<//>`}
    <ol class="found">${found.items.map((message) => html`<li key=${message.id} class="card">
      <p class="meta"><${ThreadLink} id=${message.thread} /> <span><${Line} text=${message.role === 'assistant' ? 'agent' : message.sender || message.role} /></span> <${Time} at=${message.created_at} /> ${message.run && html`<${RunLink} id=${message.run} />`}</p>
      <p class="excerpt"><${Highlighted} text=${message.excerpt} words=${q} /></p>
    </li>`)}</ol>
    ${found.next && !found.busy && html`<p><button type="button" class="quiet" onClick=${() => setTurn({ ...turn, q, wanted: wanted + PAGE })}>Show more</button></p>`}
  </section>`;
}

function state(q, { busy, items, next, complete, indexedTo, error }) {
  if (!q || error) return '';
  if (busy) return items.length === 0 ? 'Searching…' : `${items.length} found, searching…`;
  const behind = complete === false && (indexedTo ? html` Messages after <${Time} at=${indexedTo} /> are not indexed yet.` : ' No message is indexed yet.');
  return html`${items.length} found${next ? ', there may be older ones' : ''}.${behind}`;
}

// useSearch reads page after page until it has as many messages as wanted. A page may be empty: the server
// looks at a bounded part of the index for each.
function useSearch(q, wanted, again) {
  const none = { items: [], next: null, busy: Boolean(q), done: false, error: null, complete: null, indexedTo: null };
  const [found, setFound] = useState({ ...none, of: '' });
  const of = `${again} ${q}`;
  const now = found.of === of ? found : { ...none, of };
  useEffect(() => {
    if (!q || (now.done && (!now.next || now.items.length >= wanted))) return undefined;
    const stop = new AbortController();
    const read = async () => {
      let state = { ...now, busy: true, error: null };
      try {
        do {
          const page = await client.search({ q, cursor: state.next ?? undefined, limit: PAGE, signal: stop.signal });
          const items = state.items.concat(page.items);
          state = { ...state, items, next: page.next, complete: page.complete, indexedTo: page.indexed_to, done: true };
          state.busy = Boolean(page.next) && items.length < wanted;
          if (stop.signal.aborted) return;
          setFound(state);
        } while (state.busy);
      } catch (error) {
        if (stop.signal.aborted) return;
        if (error.code === 'unauthenticated') lose();
        setFound({ ...state, busy: false, done: true, error });
      }
    };
    read();
    return () => stop.abort();
  }, [of, wanted]);
  return now;
}

// Highlighted marks the words of the search in a text. The server finds whole words; a mark may be a part of one.
function Highlighted({ text, words }) {
  const wanted = words.match(/[\p{L}\p{N}\p{M}]+/gu) ?? [];
  if (wanted.length === 0) return html`<${Line} text=${text} />`;
  const parts = text.split(new RegExp(`(${[...wanted].sort((a, b) => b.length - a.length).join('|')})`, 'giu'));
  return parts.map((part, i) => (i % 2 === 1 ? html`<mark><${Line} text=${part} /></mark>` : html`<${Line} text=${part} />`));
}
