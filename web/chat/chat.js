// The chat page: one thread at a time, whose id is the hash of the address.

import { displayLine, Mailroom, Transcript } from './client/mailroom.js';
import { Composer } from './composer.js';
import { decideSoon } from './decision.js';
import { Outbox } from './outbox.js';
import { loadRecent, nameOf, Recent } from './recent.js';
import { SignIn } from './signin.js';
import { cut, tell } from './text.js';
import { View } from './view.js';

const PAGE = 200; // entries that are loaded at once
const RETRY = 2_000; // milliseconds before a failed call is retried
const ABSENT = 5_000; // milliseconds before a missing thread is looked up again

const base = new URL('.', location.href); // the API has the same base
const $ = (id) => document.getElementById(id);
const sleep = (milliseconds) => new Promise((resolve) => { setTimeout(resolve, milliseconds); });
const inHash = () => {
  try {
    return decodeURIComponent(location.hash.slice(1)).trim() || null;
  } catch {
    return null; // not a thread id
  }
};

class Page {
  #door = new SignIn(base, {
    changed: (why) => (this.#door.who ? this.#begin() : this.#ask(why)),
    left: () => this.#recent.forget(),
  }, 'read');
  #outbox = new Outbox();
  #client = null;
  #id = null; // of the thread; null: the next message makes one
  #row = null; // the thread as last loaded; null: it does not exist
  #transcript = new Transcript();
  #reading = new AbortController(); // of the thread that is open
  #view;
  #recent;
  #composer;
  #drawer; // opens and closes the list of threads on a narrow screen

  constructor() {
    this.#view = new View({
      list: $('transcript'), scroll: $('scroll'), down: $('down'),
      act: {
        retry: (run) => this.#try(() => this.#client.retry(run)),
        decide: (ticket, decision) => this.#try(() => decideSoon(this.#client, ticket, decision)),
        open: (id) => this.#go(id),
        statusOf: (run) => this.#transcript.runs.get(run)?.status,
      },
    });
    this.#view.onShown = () => this.#tell();
    this.#recent = new Recent($('recent'), {
      load: () => loadRecent(this.#client),
      open: (id) => this.#go(id),
      path: base.pathname,
    });
    this.#composer = new Composer({
      send: (message) => this.#send(message),
      stop: () => this.#try(() => this.#client.cancel(this.#transcript.current.id)),
      // Who sends is not known at first. A second message before the answer to the first would create another thread.
      ready: () => this.#client !== null && (this.#id !== null || !this.#outbox.unanswered.some(({ thread }) => thread === null)),
      id: inHash(),
    });
    this.#listen();
  }

  #listen() {
    addEventListener('hashchange', () => (this.#client ? this.#open(inHash()) : this.#composer.enter(inHash())));
    addEventListener('online', () => this.#client?.nudge());
    document.addEventListener('visibilitychange', () => document.visibilityState === 'visible' && this.#client?.nudge());
    $('new').onclick = () => this.#go(null);
    $('goto').onsubmit = (event) => {
      event.preventDefault();
      const id = $('goto-id').value.trim();
      $('goto').reset();
      if (id) this.#go(id);
    };
    $('older').onclick = () => this.#older();
    const drawer = this.#drawer = (open) => {
      if (open === document.body.classList.contains('drawn')) return;
      document.body.classList.toggle('drawn', open);
      $('menu').setAttribute('aria-expanded', String(open));
      document.querySelector('main').inert = open;
      (open ? $('new') : $('menu')).focus();
    };
    $('menu').onclick = () => drawer(!document.body.classList.contains('drawn'));
    $('shade').onclick = () => drawer(false);
    $('drawer').addEventListener('keydown', ({ key }) => key === 'Escape' && drawer(false)); // onkeydown would cancel the event on false
    $('leave').onclick = () => this.#door.leave();
    $('door').oncancel = (event) => event.preventDefault(); // the page is useless without a user
    $('door-form').onsubmit = (event) => {
      event.preventDefault();
      const token = $('token').value.trim();
      $('token').value = ''; // now, not with the answer: the user may be typing another one by then
      this.#door.paste(token);
    };
  }

  async start() {
    this.#link('connecting');
    if (!await this.#door.resume() && !this.#door.who && !$('door').open) this.#ask();
  }

  // The user.

  #ask(why = '') {
    this.#reading.abort();
    this.#link('none');
    this.#client = null;
    this.#drawer(false);
    // The outbox is emptied: the next user must not send messages of another one.
    for (const { thread, body } of this.#outbox.clear()) if (thread === this.#id) this.#composer.giveBack(body.text);
    this.#recent.stop();
    this.#transcript = new Transcript();
    this.#view.show(this.#transcript, () => []);
    tell($('door-why'), why);
    $('door-why').hidden = !why;
    if (!$('door').open) $('door').showModal();
    $('token').focus();
  }

  #begin() {
    $('door').close();
    $('token').value = '';
    this.#client = this.#door.client;
    const { token, kind } = this.#door.who;
    tell($('who'), kind === 'session' ? token : `${token}, with a token`);
    this.#loadAgents();
    this.#recent.soon(0);
    this.#open(inHash());
    for (const one of this.#outbox.unanswered) this.#deliver(one); // interrupted by a reload
    this.#composer.focus();
  }

  async #loadAgents() {
    try {
      this.#composer.offer(await this.#client.agents());
    } catch (error) {
      this.#refused(error);
    }
  }

  // Reading.

  #go(id) {
    this.#drawer(false);
    const hash = id === null ? '' : `#${encodeURIComponent(id)}`;
    if (hash !== location.hash) location.hash = hash; // opens it
    else this.#open(id);
    this.#composer.focus();
  }

  async #open(id) {
    this.#reading.abort();
    this.#reading = new AbortController();
    const { signal } = this.#reading;
    this.#id = id;
    this.#composer.enter(id);
    this.#recent.mark(id);
    while (!signal.aborted) {
      const transcript = this.#transcript = new Transcript();
      this.#row = null;
      this.#view.show(transcript, () => this.#outbox.items(this.#id, transcript));
      try {
        if (id === null) return this.#link('none'); // no thread to connect to
        this.#link('connecting');
        await this.#read(id, transcript, signal);
      } catch (error) {
        if (signal.aborted) return;
        if (!error.passing && error.code !== 'not_found') return this.#refused(error);
        this.#link(error.passing ? 'waiting' : 'none', error); // no answer, or the thread does not exist
      }
      await sleep(this.#row === null && $('link').dataset.state !== 'waiting' ? ABSENT : RETRY);
    }
  }

  async #read(id, transcript, signal) {
    const row = await this.#client.thread(id, { signal });
    const [{ items }, runs, { items: tickets }] = await Promise.all([
      this.#client.entries(id, { before: row.last_seq + 1, limit: PAGE, signal }),
      Promise.all([row.active_run, row.waiting_run].filter(Boolean).map((run) => this.#client.run(run, { signal }))),
      this.#client.tickets({ q: `thread:${quoted(id)} state:open`, signal }),
    ]);
    for (const entry of items) transcript.take({ kind: 'entry', entry });
    transcript.know({ runs, tickets });
    await this.#complete(transcript, signal);
    this.#row = row;
    this.#composer.of(row);
    this.#view.later();
    const after = String(row.last_seq);
    for await (const event of this.#client.follow({ thread: id, after, signal, onState: (state, error) => this.#link(state, error) })) {
      transcript.take(event);
      if (transcript.missing.size > 0) await this.#complete(transcript, signal);
      this.#view.later();
      if (event.kind === 'entry') this.#heard(event.entry);
    }
  }

  // Announces new messages and questions to screen readers.
  #heard({ kind, body }) {
    if (/^(run|ticket)\./.test(kind)) this.#recent.soon();
    if (kind === 'message' && body.role === 'assistant' && body.visibility !== 'internal') tell($('said'), `${body.sender}: ${body.text}`);
    if (kind === 'ticket.opened' && body.prompt) tell($('said'), `It asks: ${body.prompt}`);
  }

  // Loads messages that were read within the loaded entries but are older than them.
  async #complete(transcript, signal) {
    const missing = new Set(transcript.missing);
    for (let after = Math.min(...missing) - 1; missing.size > 0;) {
      const { items, next } = await this.#client.entries(this.#id, { after, before: transcript.firstSeq, kind: 'message,message.edited', limit: 500, signal });
      const found = items.filter(({ seq }) => missing.delete(seq));
      if (found.length > 0) transcript.know({ entries: found });
      if (next === null) break; // the others were purged
      after = next;
    }
    transcript.missing.clear();
  }

  async #older() {
    const transcript = this.#transcript;
    $('older').disabled = true;
    await this.#try(async () => {
      const { items } = await this.#client.entries(this.#id, { before: transcript.firstSeq, limit: PAGE });
      if (transcript !== this.#transcript) return; // another thread was opened
      transcript.prepend(items);
      await this.#complete(transcript, this.#reading.signal);
      this.#view.keeping();
    });
    $('older').disabled = false;
  }

  // Writing.

  #send({ text, agent, mode }) {
    const body = { text };
    if (agent && agent !== this.#row?.agent) body.agent = agent;
    if (this.#transcript.current && mode !== 'queue') body.mode = mode;
    const one = this.#outbox.add({ thread: this.#id, body, after: this.#transcript.lastSeq });
    this.#view.toEnd();
    this.#view.later();
    this.#deliver(one);
  }

  async #deliver(one) {
    const client = this.#client;
    const made = one.thread === null;
    while (client === this.#client) {
      try {
        const out = await client.send(one.body, { thread: one.thread ?? undefined, key: one.key });
        this.#outbox.answered(one, out);
        if (made) await this.#entitle(client, out.thread, one.body.text);
        if (client !== this.#client) return;
        if (made && this.#id === null) this.#go(out.thread);
        else if (this.#id === out.thread && this.#row === null) this.#open(out.thread); // it exists now
        this.#recent.soon();
        return;
      } catch (error) {
        if (client !== this.#client) return;
        if (error.passing) {
          await sleep(RETRY);
          continue;
        }
        if (error.code !== 'unauthenticated') {
          this.#outbox.remove(one);
          if (this.#id === one.thread) this.#composer.giveBack(one.body.text);
          this.#view.later();
        }
        this.#refused(error);
        return;
      }
    }
  }

  // Gives a new thread a title: its first words. A failure only costs the title.
  async #entitle(client, id, text) {
    await client.patchThread(id, { metadata: { title: cut(text.replace(/[*_`#>]/g, ''), 60) } }).catch(() => {});
  }

  /** Runs a user's action and shows the reason if the server rejects it. */
  async #try(what) {
    try {
      await what();
    } catch (error) {
      this.#refused(error);
    }
  }

  #refused(error) {
    if (!this.#client) return; // the user has left
    if (error.code === 'unauthenticated') {
      this.#door.ended();
      return;
    }
    console.error(error);
    this.#composer.refuse(error.detail ?? error.message);
  }

  // Around the transcript.

  #link(state, error) {
    const words = { none: '', connecting: 'Connecting', live: 'Live', waiting: navigator.onLine === false ? 'Offline' : 'Reconnecting' };
    $('link').dataset.state = state;
    $('link').title = error ? displayLine(error.detail) : '';
    if (state !== 'connecting') document.body.classList.toggle('cut-off', state === 'waiting'); // until an attempt succeeds
    this.#view.later();
    if (state === 'waiting' || $('link-text').textContent === 'Reconnecting') $('said').textContent = words[state];
    if ($('link-text').textContent !== words[state]) $('link-text').textContent = words[state];
  }

  #tell() {
    const transcript = this.#transcript;
    const name = this.#id === null ? 'New thread' : nameOf(this.#recent.thread(this.#id) ?? this.#row ?? { id: this.#id });
    tell($('title'), name);
    const asks = [...transcript.tickets.values()].some(({ ticket }) => ticket.state === 'open');
    document.title = displayLine(`${asks ? '● ' : ''}${name} · Mailroom`);
    $('older').hidden = !this.#row || transcript.firstSeq === 0 || transcript.firstSeq <= this.#row.oldest_seq;
    const empty = transcript.items.length === 0 && this.#outbox.items(this.#id, transcript).length === 0;
    $('empty').hidden = !empty || !this.#client;
    $('empty').textContent = this.#id === null || this.#row === null ? 'Write a message to start a thread.' : 'No messages yet.';
    if (this.#client && this.#row) this.#recent.showed(this.#id, Math.max(transcript.lastSeq, this.#row.last_seq));
    this.#composer.tell(transcript, !document.body.classList.contains('cut-off'));
  }
}

// Quotes a value for a filter.
const quoted = (text) => `"${text.replaceAll('\\', '\\\\').replaceAll('"', '\\"')}"`;

new Page().start();
