// The worker that reads Markdown. Agents write the texts, and for some of them the lexer takes minutes or
// overflows its stack. In a worker neither stops a page.

import { marked } from '../vendor/marked.js';

const MOST_TOKENS = 10_000; // each becomes an element of the page
const MOST_DEPTH = 40; // of tokens in tokens, which the page renders by recursion

addEventListener('message', ({ data }) => postMessage({ blocks: read(data) }));
postMessage({ ready: true });

// read returns the tokens of a text, null if it stays plain text.
function read(text) {
  try {
    const blocks = [...marked.lexer(text)]; // without the property links, which nothing uses
    return within(blocks) ? blocks : null;
  } catch {
    return null; // the lexer overflowed its stack
  }
}

function within(blocks) {
  let left = MOST_TOKENS;
  const fits = (tokens, depth) => depth <= MOST_DEPTH && tokens.every((token) => {
    left -= 1;
    const cells = token.type === 'table' ? [token.header, ...token.rows].flat() : [];
    return left >= 0 && [token.tokens, token.items, cells].every((inner) => !inner || fits(inner, depth + 1));
  });
  return fits(blocks, 1);
}
