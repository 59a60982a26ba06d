// The input form and the status line of the current run.

import { el, isEnter, tell, when } from './text.js';

const $ = (id) => document.getElementById(id);
const draft = (id) => `mailroom.draft ${id ?? ''}`;

export class Composer {
  #id = null;
  #agents = [];
  #current = null; // the current run
  #stopping = null; // the run that this page asked to stop
  #asked = false; // the run waits for a text answer
  #picked = false; // the user has chosen an agent for this thread
  #ready;

  /**
   * ready says whether a message can be sent now. What the user has typed before this script ran becomes a part of the
   * draft of the thread id, which the page is about to open.
   */
  constructor({ send, stop, ready, id }) {
    this.#ready = ready;
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
      if (!isEnter(event) || event.shiftKey) return;
      event.preventDefault();
      submit();
    };
    $('stop').onclick = async () => {
      this.#stopping = this.#current?.id;
      $('stop').disabled = true;
      await stop();
      this.#stopping = null; // the run's own state shows the stop
      $('stop').disabled = Boolean(this.#current?.stopping);
    };
    $('agent').onchange = () => { this.#picked = true; };
    const early = text.value;
    const kept = sessionStorage.getItem(draft(id)) ?? '';
    if (early.trim() && early !== kept) sessionStorage.setItem(draft(id), kept ? `${kept}\n${early}` : early);
    this.enter(id);
  }

  /** Another thread is open; its agent is still unknown. */
  enter(id) {
    this.#id = id;
    $('text').value = sessionStorage.getItem(draft(id)) ?? '';
    this.refuse('');
    this.#fit();
    this.#picked = false;
    this.#choose('');
  }

  /** Sets the agent of the loaded thread, unless the user was faster and has chosen one. */
  of({ agent }) { if (!this.#picked) this.#choose(agent); }

  /** Sets the available agents. */
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

  /** Restores a rejected message, unless the user is writing another one. */
  giveBack(text) {
    if (!$('text').value) $('text').value = text;
    this.#fit();
  }

  refuse(why) {
    tell($('refused'), why);
    $('refused').hidden = !why;
  }

  /** Shows the status of the thread, the last known one while the connection is lost. */
  tell(transcript, live) {
    const run = this.#current = transcript.current;
    const asks = [...transcript.tickets.values()].filter(({ ticket }) => ticket.state === 'open');
    this.#asked = run?.status === 'waiting' && asks.some(({ ticket }) => ticket.kind === 'input');
    const behind = transcript.queued - (run && !run.started ? 1 : 0);
    let words = [run ? doing(run, asks.length > 0, transcript.waitsOn) : '', behind > 0 ? `${behind} more queued` : ''].filter(Boolean).join(' · ');
    if (words && !live) words = `Last seen: ${words}`;
    if ($('doing').textContent !== words) $('doing').textContent = words;
    $('doing').classList.toggle('busy', live && run?.status === 'running' && !run.stopping);
    $('text').placeholder = this.#asked ? 'Write your answer' : 'Write a message';
    this.#offerModes();
    this.#offerSend();
    $('stop').hidden = !run;
    $('stop').disabled = Boolean(run && (run.stopping || run.id === this.#stopping));
  }

  // The mode matters only while the user writes and a run is active. A message to a run
  // that asks for input is its answer in every mode.
  #offerModes() {
    $('modes').hidden = !this.#current || this.#asked || !$('text').value.trim();
  }

  #fit() {
    const text = $('text');
    text.style.height = 'auto';
    text.style.height = `${text.scrollHeight}px`;
    this.#offerSend();
    this.#offerModes();
  }

  #offerSend() { $('send').disabled = !$('text').value.trim() || !this.#ready(); }
}

function doing({ id, agent, status, started, stopping, until }, asks, waitsOn) {
  const who = agent ?? 'The agent';
  if (stopping) return `${who} was asked to stop`;
  if (status === 'running') return `${who} is working${waitsOn?.run === id ? `: ${waitsOn.text} (since ${when(waitsOn.since)})` : ''}`;
  if (status === 'waiting' && asks) return `${who} is waiting for you`;
  if (status === 'waiting') return until ? `${who} is waiting until ${when(until)} at most` : `${who} is waiting for another run`;
  if (started) return `${who} retries${until && new Date(until) - Date.now() > 5_000 ? ` at ${when(until)}` : ' shortly'}`;
  return `Waiting for ${who} to start`;
}
