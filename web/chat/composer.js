// Where messages are written, and what is said about what is under way.

import { el, tell, when } from './text.js';

const $ = (id) => document.getElementById(id);
const draft = (id) => `mailroom.draft ${id ?? ''}`;

export class Composer {
  #id = null;
  #agents = [];
  #current = null; // the run that is under way
  #stopping = null; // the run that was asked to stop here
  #asked = false; // it waits for an answer in words

  constructor({ send, stop, ready }) {
    const text = $('text');
    const submit = () => {
      if (!text.value.trim() || !ready()) return;
      const mode = $('modes').hidden ? 'queue' : new FormData($('composer')).get('mode');
      this.refuse('');
      send({ text: text.value.trim(), agent: $('agent').value, mode });
      text.value = '';
      sessionStorage.removeItem(draft(this.#id));
      $('composer').elements.mode.value = 'queue';
      this.#fit();
    };
    $('composer').onsubmit = (event) => {
      event.preventDefault();
      submit();
      text.focus();
    };
    text.oninput = () => {
      sessionStorage.setItem(draft(this.#id), text.value);
      this.#fit();
    };
    text.onkeydown = (event) => {
      if (event.key !== 'Enter' || event.shiftKey || event.isComposing) return;
      event.preventDefault();
      submit();
    };
    $('stop').onclick = async () => {
      this.#stopping = this.#current?.id;
      $('stop').disabled = true;
      await stop();
      this.#stopping = null; // if it was taken, the run itself says so
      $('stop').disabled = Boolean(this.#current?.stopping);
    };
  }

  /** Another thread is open; its agent is not known yet. */
  enter(id) {
    this.#id = id;
    $('text').value = sessionStorage.getItem(draft(id)) ?? '';
    this.refuse('');
    this.#fit();
    this.#choose('');
  }

  /** The thread as the server knows it. */
  of({ agent }) { this.#choose(agent); }

  /** The agents there are. */
  offer(agents) {
    this.#agents = agents;
    this.#choose($('agent').value);
  }

  #choose(agent) {
    const options = this.#agents.map(({ name, available, reason }) => (
      el('option', { value: name, disabled: !available && name !== agent, title: reason }, available ? name : `${name} (${reason ?? 'not available'})`)));
    if (!agent) options.unshift(el('option', { value: '' }, 'Default agent'));
    else if (!this.#agents.some(({ name }) => name === agent)) options.unshift(el('option', { value: agent }, agent));
    $('agent').replaceChildren(...options);
    $('agent').value = agent;
  }

  focus() {
    if (matchMedia('(hover: hover)').matches) $('text').focus(); // on a phone the keyboard would cover the page
  }

  /** A message that was refused comes back, unless something else is being written. */
  giveBack(text) {
    if (!$('text').value) $('text').value = text;
    this.#fit();
  }

  refuse(why) {
    tell($('refused'), why);
    $('refused').hidden = !why;
  }

  /** Says what the thread does, or did when the connection was lost. */
  tell(transcript, live) {
    const run = this.#current = transcript.current;
    const asks = [...transcript.tickets.values()].filter(({ ticket }) => ticket.state === 'open');
    this.#asked = run?.status === 'waiting' && asks.some(({ ticket }) => ticket.kind === 'input');
    const behind = transcript.queued - (run && !run.started ? 1 : 0);
    let words = [run ? doing(run, asks.length > 0) : '', behind > 0 ? `${behind} more in line` : ''].filter(Boolean).join(' · ');
    if (words && !live) words = `Last seen: ${words}`;
    if ($('doing').textContent !== words) $('doing').textContent = words;
    $('doing').classList.toggle('busy', live && run?.status === 'running' && !run.stopping);
    $('text').placeholder = this.#asked ? 'Write your answer' : 'Write a message';
    this.#offerModes();
    $('stop').hidden = !run;
    $('stop').disabled = Boolean(run && (run.stopping || run.id === this.#stopping));
  }

  // Only who writes has to choose, and only while something is under way. What is
  // written while a run asks for input is the answer, whatever the mode.
  #offerModes() {
    $('modes').hidden = !this.#current || this.#asked || !$('text').value.trim();
  }

  #fit() {
    const text = $('text');
    text.style.height = 'auto';
    text.style.height = `${text.scrollHeight}px`;
    $('send').disabled = !text.value.trim();
    this.#offerModes();
  }
}

function doing({ agent, status, started, stopping, until }, asks) {
  const who = agent ?? 'The agent';
  if (stopping) return `${who} was asked to stop`;
  if (status === 'running') return `${who} is at work`;
  if (status === 'waiting' && asks) return `${who} waits for you`;
  if (status === 'waiting') return until ? `${who} waits, until ${when(until)} at most` : `${who} waits for something else to end`;
  if (started) return `${who} tries again${until && new Date(until) - Date.now() > 5_000 ? ` at ${when(until)}` : ' shortly'}`;
  return `Waits for ${who} to begin`;
}
