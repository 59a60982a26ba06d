// Renders text as nodes. Untrusted text only becomes text nodes, never HTML.

import { displayLine, displayText } from './client/mailroom.js';

// Attributes with text for people.
const SEEN = new Set(['title', 'aria-label', 'alt', 'placeholder']);

/** Sets the text of an element, with invisible and misleading characters marked. */
export function tell(node, text) { node.textContent = displayText(text); }

/** Makes an element with attributes, properties that begin with "on", and children. */
export function el(name, attributes = {}, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith('on')) node[key] = value;
    else if (value === true) node.setAttribute(key, '');
    else if (value !== false && value !== null && value !== undefined) node.setAttribute(key, SEEN.has(key) ? displayLine(value) : value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined && child !== '').map((child) => (child instanceof Node ? child : displayText(child))));
  return node;
}

const MOST = 100_000; // characters of a text with Markdown; a longer one could become too many elements

/**
 * Shows Markdown in node: paragraphs, headings and fenced code, with inline code, bold,
 * emphasis and links. Other syntax stays as it is. A call with a longer text only
 * changes the new blocks.
 */
export function showText(node, text) {
  const all = displayText(text);
  const blocks = all.length > MOST ? [{ code: false, language: '', text: all }] : split(all);
  const shown = node.blocks ??= [];
  blocks.forEach((block, i) => {
    const old = shown[i];
    if (old && old.code === block.code && old.text === block.text && old.language === block.language) return;
    const made = block.code ? code(block, old?.code ? old.node : null) : all.length > MOST ? el('p', {}, block.text) : prose(block.text);
    if (old && made !== old.node) old.node.replaceWith(made);
    else if (!old) node.append(made);
    shown[i] = { ...block, node: made };
  });
  for (const { node: extra } of shown.splice(blocks.length)) extra.remove();
}

// split splits text into paragraphs and blocks of fenced code. An unclosed block extends
// to the end of the text.
function split(text) {
  const blocks = [];
  let lines = [];
  let fence = null;
  const end = () => {
    const body = lines.join('\n');
    if (fence) blocks.push({ code: true, language: fence.language, text: body });
    else if (body.trim()) blocks.push({ code: false, language: '', text: body });
    lines = [];
  };
  for (const line of text.split('\n')) {
    const mark = fenceOf(line);
    if (fence && mark && mark.mark.startsWith(fence.mark) && !mark.language) {
      end();
      fence = null;
    } else if (!fence && mark) {
      end();
      fence = mark;
    } else if (!fence && line.trim() === '') {
      end();
    } else if (!fence && HEADING.test(line)) {
      end();
      blocks.push({ code: false, language: '', text: line });
    } else {
      lines.push(line);
    }
  }
  end();
  return blocks;
}

// fenceOf reads a line that begins or ends a block of code, and returns null for any other line. One regular expression
// for this would take quadratic time on a line of many marks that does not match.
function fenceOf(line) {
  const start = /^ {0,3}/.exec(line)[0].length;
  let end = start;
  while (line[end] === line[start] && (line[end] === '`' || line[end] === '~')) end += 1;
  const rest = line.slice(end);
  if (end - start < 3 || rest.includes('`')) return null;
  return { mark: line.slice(start, end), language: /^\s*([\w+#.-]*)/.exec(rest)[1] };
}

const HEADING = /^#{1,6} +(?=\S)/;

function code({ text, language }, old) {
  if (old) {
    old.querySelector('code').textContent = text;
    old.querySelector('.language').textContent = language;
    return old;
  }
  const body = el('code', {}, text);
  const take = () => navigator.clipboard.writeText(body.textContent).then(() => { copy.textContent = 'Copied'; }, () => { copy.textContent = 'Not allowed'; });
  const copy = navigator.clipboard && el('button', { type: 'button', class: 'quiet copy', onclick: take, onblur: () => { copy.textContent = 'Copy'; } }, 'Copy');
  return el('figure', { class: 'code' }, el('figcaption', {}, el('span', { class: 'language' }, language), copy), el('pre', { tabindex: '0' }, body));
}

const INLINE = /`([^`\n]+)`|\*\*([^*\n]+)\*\*|(?<![\w*])\*([^*\s](?:[^*\n]*[^*\s])?)\*(?![\w*])|\bhttps?:\/\/[^\s<>"'`]*[^\s<>"'`.,;:!?)\]}*]/g;

function prose(text) {
  const title = HEADING.exec(text);
  const out = el(title ? 'h4' : 'p');
  let end = title ? title[0].length : 0;
  for (const found of text.matchAll(INLINE)) {
    const [all, mono, bold, slanted] = found;
    out.append(text.slice(end, found.index));
    if (mono !== undefined) out.append(el('code', {}, mono));
    else if (bold !== undefined) out.append(el('strong', {}, bold));
    else if (slanted !== undefined) out.append(el('em', {}, slanted));
    else out.append(el('a', { href: all, rel: 'noopener noreferrer', target: '_blank' }, all));
    end = found.index + all.length;
  }
  out.append(text.slice(end));
  return out;
}

const clock = new Intl.DateTimeFormat(undefined, { hour: '2-digit', minute: '2-digit' });
const day = new Intl.DateTimeFormat(undefined, { day: 'numeric', month: 'short', hour: '2-digit', minute: '2-digit' });

/** Formats a time, with its day unless that is today. */
export function when(at) {
  const time = new Date(at);
  if (Number.isNaN(time.valueOf())) return '';
  return (time.toDateString() === new Date().toDateString() ? clock : day).format(time);
}

/** Formats a value as indented JSON; a string stays as it is. */
export function plain(value) {
  if (value === null || value === undefined) return '';
  return typeof value === 'string' ? value : JSON.stringify(value, null, 2);
}

/** The first n characters of text on one line. */
export function cut(text, n) {
  const line = displayLine(text).replace(/\s+/g, ' ').trim();
  const characters = [...line];
  return characters.length > n ? `${characters.slice(0, n).join('')}…` : line;
}

/** The last n characters of text on one line. */
export function tail(text, n) {
  const characters = [...displayLine(text.slice(-4 * n)).replace(/\s+/g, ' ').trim()];
  return characters.length > n ? `…${characters.slice(-n).join('')}` : characters.join('');
}

/**
 * Whether a keydown is an Enter of the user, and not one that accepts the suggestion of an input method. Safari ends the
 * composition before that event, which leaves only the key code of input methods.
 */
export const isEnter = (event) => event.key === 'Enter' && !event.isComposing && event.keyCode !== 229;
