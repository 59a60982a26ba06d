// Renders each kind of transcript item. The element of an item is created once and
// updated in place, so that it keeps its position and focus.

import { cut, el, plain, showText, tail, tell, when } from './text.js';

/** Creates the element of an item. act has the actions of its buttons: retry(run), decide(ticket, decision), open(thread). */
export function make(item, act) {
  const node = el(item.kind === 'message' ? 'article' : 'div', { class: `item ${item.kind}`, 'data-key': item.key });
  node.bring = KINDS[item.kind](node, item, act);
  return node;
}

const KINDS = { message, note, ticket, retry, end, gap };

function message(node, first) {
  const meta = el('p', { class: 'meta' });
  const body = el('div', { class: 'body' });
  const remark = el('p', { class: 'remark' });
  node.append(meta, body, remark);
  node.classList.add(first.role);
  return (item) => {
    const own = item.role === 'user';
    meta.replaceChildren(el('span', { class: own ? 'unseen' : 'sender' }, item.sender || 'Agent'));
    if (item.at) meta.append(el('time', { datetime: item.at }, when(item.at)));
    node.classList.toggle('live', item.live);
    node.classList.toggle('aside', Boolean(item.aside));
    node.classList.toggle('pale', item.again || item.state !== 'read');
    node.setAttribute('aria-busy', String(item.live));
    if (own) tell(body, item.text);
    else showText(body, item.text);
    attach(body, item.parts);
    tell(remark, remarkOn(item));
  };
}

function remarkOn({ state, partial, again, live, role }) {
  if (state === 'sending') return 'Sending';
  if (state === 'accepted') return 'Queued';
  if (state === 'superseded') return 'Superseded before it was read';
  if (state === 'unread') return 'Never read';
  if (again) return 'Cut off here, then retried';
  if (partial && !live && role === 'assistant') return 'Cut off here';
  return '';
}

// What the agent thought is folded. Other parts are named but not loaded: the URI of a file is untrusted.
function attach(body, parts = []) {
  for (const old of body.querySelectorAll('.parts, .reasoning')) old.remove();
  const thoughts = parts.filter(({ type }) => type === 'reasoning').map(({ text }) => text).join('\n');
  if (thoughts) body.prepend(el('details', { class: 'reasoning' }, el('summary', {}, 'Thinking'), el('p', {}, thoughts)));
  const others = parts.filter(({ type }) => type === 'data' || type === 'file');
  if (others.length === 0) return;
  body.append(el('ul', { class: 'parts' }, ...others.map((part) => (
    part.type === 'file' ? el('li', {}, `File ${part.name || part.uri}`) : el('li', {}, el('code', {}, cut(plain(part.data), 200)))
  ))));
}

const ENDED = { completed: 'answered', failed: 'failed', cancelled: 'was cancelled' };
const OUTCOMES = { expired: ', and got no answer in time', void: ', which did not end' };

function note(node, first, { open }) {
  const mark = el('span', { class: 'mark', 'aria-hidden': 'true' });
  const words = el('span', { class: 'words' });
  node.append(mark, words);
  return ({ about, name, detail, progress = '', result, output, status }) => {
    node.dataset.progress = progress;
    const parts = {
      step: [`step ${name}`],
      tool: [
        el('b', {}, name || 'tool'), ' ', detail === undefined ? '' : el('code', {}, progress === 'live' ? tail(detail, 120) : cut(plain(detail), 120)),
        result || output !== undefined ? ` → ${cut(result || plain(output), 160)}` : '', OUTCOMES[progress] ?? '',
      ],
      effect: [el('b', {}, name), `: ${cut(detail, 200)}`],
      timer: [`waiting until ${when(detail)}`],
      send: [
        'asked ', el('button', { type: 'button', class: 'link', onclick: () => open(name) }, 'another thread'),
        progress === 'open' ? ' and is waiting for the answer' : '', status ? `, which ${ENDED[status] ?? status}` : '',
        result ? ` → ${cut(result, 160)}` : '', OUTCOMES[progress] ?? '',
      ],
    }[about];
    words.replaceChildren(...parts.filter((part) => part !== ''));
  };
}

function retry(node) {
  const words = el('p');
  node.append(words);
  return ({ reason, error, attempt, until, at }) => {
    const why = reason === 'lease_lost' ? 'the worker was lost' : error?.message ?? 'it failed';
    const later = new Date(until) - new Date(at) > 1000 ? ` Retry at ${when(until)}.` : '';
    words.textContent = `Attempt ${attempt} failed: ${cut(why, 300)}.${later}`;
  };
}

function end(node, first, act) {
  const words = el('p');
  const detail = el('p', { class: 'detail' });
  const again = el('button', { type: 'button', class: 'quiet', onclick: () => busy(again, act.retry(first.run)) }, 'Try again');
  node.append(el('div', {}, words, detail), again);
  return ({ run, status, reason, error, forced }) => {
    node.dataset.status = status;
    words.textContent = status === 'failed' ? 'Failed' : { interrupted: 'Interrupted by a newer message', cancelled: 'Stopped' }[reason] ?? `Stopped (${reason})`;
    if (forced) words.textContent += ', killed';
    detail.textContent = error ? cut(error.message, 600) : '';
    again.hidden = act.statusOf(run) !== status;
  };
}

function gap(node) {
  node.append(el('p', {}, 'Older entries were purged.'));
  return () => {};
}

const TITLES = { approval: 'Approval needed', input: 'Question', event: 'Waiting for an event' };
const DONE = { approve: 'Approved', deny: 'Denied', answer: 'Answered' };

function ticket(node, first, act) {
  const { id, kind, prompt, action, arguments: given, digest, expires_at: expires, answers } = first.ticket;
  const title = el('h3', { id: `title ${id}`.replaceAll(' ', '-') }, TITLES[kind]);
  const card = el('section', { 'aria-labelledby': title.id }, title, prompt && el('p', { class: 'prompt' }, prompt));
  if (action || given) {
    card.append(el('dl', {},
      ...(action ? [el('dt', {}, 'Action'), el('dd', {}, el('code', {}, action))] : []),
      ...(given ? [el('dt', {}, 'Arguments'), el('dd', {}, el('pre', { tabindex: '0' }, plain(given)))] : [])));
  }
  const outcome = el('p', { class: 'outcome', role: 'status' });
  const form = kind === 'approval' ? approval(first.ticket, act) : question(first.ticket, act);
  const small = el('p', { class: 'small' }, expires ? `Expires ${when(expires)} without an approval. ` : '', el('span', { title: digest }, `Fingerprint ${digest.slice(0, 16)}`));
  card.append(form, small, outcome);
  node.append(card);
  return ({ ticket: now }) => {
    node.dataset.state = now.state;
    form.hidden = small.hidden = now.state !== 'open';
    tell(outcome, outcomeOf(now, answers));
  };
}

function outcomeOf({ state, decision, answer, reason, decided_by: by }) {
  if (state === 'expired') return 'Expired without a decision.';
  if (state === 'void') return 'Void: its run has ended.';
  if (state !== 'decided') return '';
  const said = decision === 'answer' ? `: ${cut(plain(answer), 300)}` : '';
  return `${DONE[decision]}${by ? ` by ${by}` : ''}${said}${reason ? ` (${reason})` : ''}`;
}

// approval makes the form of an approval. It sends the digest of the ticket that the card shows, so that the decision
// cannot apply to another question.
function approval({ id, digest, answers }, act) {
  const reason = el('input', { class: 'reason', placeholder: answers ? 'Result, or reason' : 'Reason (optional)', 'aria-label': 'Reason', autocomplete: 'off', maxlength: '1000' });
  const send = (decision, more = {}) => busy(form, act.decide(id, { decision, digest, reason: reason.value.trim() || undefined, ...more }));
  const button = (label, kind, onclick) => el('button', { type: 'button', class: kind, onclick }, label);
  const form = el('div', { class: 'decide' }, reason,
    button('Approve', 'good', () => send('approve')),
    answers ? button('It happened', 'quiet', () => send('answer', { answer: reason.value.trim(), reason: undefined })) : null,
    button('Deny', 'quiet', () => send('deny')));
  return form;
}

function question({ id, digest }, act) {
  const answer = el('textarea', { rows: '2', 'aria-label': 'Your answer', placeholder: 'Your answer' });
  const send = () => {
    if (answer.value.trim()) busy(form, act.decide(id, { decision: 'answer', digest, answer: answer.value.trim() }));
  };
  const form = el('div', { class: 'decide' }, answer, el('button', { type: 'button', class: 'good', onclick: send }, 'Answer'));
  return form;
}

// busy disables the controls until done settles.
async function busy(node, done) {
  const controls = node.matches('button') ? [node] : [...node.querySelectorAll('button, input, textarea')];
  for (const control of controls) control.disabled = true;
  await done;
  for (const control of controls) control.disabled = false;
}
