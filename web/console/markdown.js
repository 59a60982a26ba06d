// Markdown as elements. The lexer only makes tokens: no text of a message is ever parsed as HTML.

import { displayText } from '../chat/client/mailroom.js';
import { html, useEffect, useState } from '../vendor/preact.js';
import { reader } from './reader.js';

const MOST = 100_000; // characters that are read as Markdown; a longer text is plain text

/** A text of a message. It is plain text until it has been read, and if it cannot be read in time. */
export function Markdown({ text }) {
  const shown = displayText(text);
  const [read, setRead] = useState({ text: '', blocks: null });
  useEffect(() => {
    if (shown.length > MOST) return () => {};
    let here = true;
    reader.read(shown).then((blocks) => here && setRead({ text: shown, blocks }));
    return () => { here = false; };
  }, [shown]);
  // A text that grows keeps the elements of its beginning until the rest has been read.
  const blocks = read.text && shown.startsWith(read.text) && shown.length <= MOST ? read.blocks : null;
  return html`<div class="markdown">${blocks ? blocks.map(block) : html`<p class="plain">${shown}</p>`}</div>`;
}

const children = (token) => (token.tokens ? token.tokens.map(inline) : plainText(token));

// The lexer keeps entities such as &amp; as they were written.
const plainText = (token) => token.text ?? token.raw;

function block(token) {
  switch (token.type) {
    case 'space': return null;
    case 'heading': return html`<p class="heading" role="heading" aria-level=${Math.min(token.depth + 2, 6)}>${children(token)}</p>`;
    case 'code': return html`<figure class="code">${token.lang && html`<figcaption>${token.lang}</figcaption>`}<pre tabindex="0"><code>${token.text}</code></pre></figure>`;
    case 'blockquote': return html`<blockquote>${token.tokens.map(block)}</blockquote>`;
    case 'list': return token.ordered ? html`<ol start=${token.start || 1}>${token.items.map(item)}</ol>` : html`<ul>${token.items.map(item)}</ul>`;
    case 'hr': return html`<hr />`;
    case 'table': return table(token);
    case 'paragraph': return html`<p>${children(token)}</p>`;
    case 'text': return html`<p>${children(token)}</p>`;
  }
  return html`<p class="plain">${token.raw}</p>`; // HTML, and tokens that a later version of the lexer adds
}

const item = (token) => html`<li>${token.task ? (token.checked ? '☑ ' : '☐ ') : ''}${token.tokens.map((part) => (part.type === 'text' ? children(part) : block(part)))}</li>`;

function table({ header, rows }) {
  return html`<div class="table" tabindex="0" role="region" aria-label="Table"><table><thead><tr>${header.map((cell) => html`<th>${cell.tokens.map(inline)}</th>`)}</tr></thead>
    <tbody>${rows.map((row) => html`<tr>${row.map((cell) => html`<td>${cell.tokens.map(inline)}</td>`)}</tr>`)}</tbody></table></div>`;
}

function inline(token) {
  switch (token.type) {
    case 'strong': return html`<strong>${children(token)}</strong>`;
    case 'em': return html`<em>${children(token)}</em>`;
    case 'del': return html`<del>${children(token)}</del>`;
    case 'codespan': return html`<code>${token.text}</code>`;
    case 'br': return html`<br />`;
    case 'link': return safe(token.href) ? html`<a href=${token.href} rel="noopener noreferrer" target="_blank">${children(token)}</a>` : token.raw;
    case 'image': return safe(token.href) ? html`<a href=${token.href} rel="noopener noreferrer" target="_blank">${token.text || token.href}</a>` : token.raw; // nothing is loaded
    case 'escape': return token.text;
    case 'text': return children(token);
  }
  return token.raw;
}

const safe = (href) => /^(https?:\/\/|mailto:)/i.test(href);
