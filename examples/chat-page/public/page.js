import { Mailroom, Transcript, displayText } from './client/mailroom.js';

const { thread, agent } = await (await fetch('/me')).json();
// The app knows the user by a cookie. It passes on plain requests, so streams are server-sent events and not a WebSocket.
const withCookie = (url, options) => fetch(url, { ...options, credentials: 'same-origin' });
const mailroom = new Mailroom({ url: new URL('/mail', location.href), fetch: withCookie, WebSocket: null });
const transcript = new Transcript();
const rows = new Map();
const at = (id) => document.getElementById(id);
const element = (name, properties, ...children) => {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...children);
  return made;
};

function row(item) {
  if (item.kind === 'message') return element('li', { className: item.role }, displayText(item.text));
  if (item.kind === 'ticket') return element('li', { className: 'ticket' }, ...question(item.ticket));
  const note = (text) => element('li', { className: 'note' }, displayText(text));
  if (item.kind === 'note' && item.about === 'tool') return note(`Uses the tool ${item.name}.`);
  if (item.kind === 'note' && item.about === 'send') return note('Writes to another agent.');
  if (item.kind === 'retry') return note('An attempt failed; it is tried again.');
  if (item.kind === 'end') return note(item.status === 'failed' ? 'It has failed.' : 'It was cancelled.');
  return element('li', { hidden: true }); // steps, effects and the like
}

function question(ticket) {
  const shown = [displayText(ticket.prompt), element('pre', {}, displayText(JSON.stringify(ticket.arguments, null, 2) ?? ''))];
  if (ticket.state !== 'open') return [...shown, ticket.decision ?? ticket.state];
  const button = (label, decision) => element('button', { onclick: () => mailroom.decide(ticket.id, { decision, digest: ticket.digest }) }, label);
  return [...shown, button('Approve', 'approve'), ' ', button('Deny', 'deny')];
}

function draw() {
  for (const item of transcript.changed()) rows.set(item.key, row(item));
  at('items').replaceChildren(...transcript.items.map(({ key }) => rows.get(key)));
}

let begin;
const begun = new Promise((resolve) => { begin = resolve; }); // by the first message, which creates the thread

at('send').onsubmit = async (event) => {
  event.preventDefault();
  const { text } = event.target.elements;
  const message = text.value;
  text.value = '';
  try {
    await mailroom.send({ thread, agent, text: message }); // also repeated, it is accepted once
    begin();
  } catch (error) {
    [text.value, at('state').textContent] = [message, error.detail];
  }
};
at('send').querySelector('button').disabled = false; // without onsubmit, the browser would send the form and lose the text

// After a lost connection the stream goes on where it broke, with the header Last-Event-ID. A page that was reloaded
// begins at the first entry and gets the text that is being written from its start.
for (;;) {
  try {
    for await (const event of mailroom.follow({ thread, onState: (state) => { at('state').textContent = state === 'live' ? '' : 'Connecting …'; } })) {
      transcript.take(event);
      draw();
    }
  } catch (error) {
    if (error.code !== 'not_found') throw error;
    at('state').textContent = '';
    await begun;
  }
}
