// Replies with which an agent says that it has nothing to say. Pure, without the document.

/** Whether a text says nothing but a word, with which an agent says that it has nothing to say; see internal/display/silent.go. */
export function isSilent(text, word) {
  const bare = (/** @type {string} */ of) => of.replace(/^[^\p{L}\p{Nd}]+|[^\p{L}\p{Nd}]+$/gu, '').toUpperCase();
  return bare(word) !== '' && new TextEncoder().encode(text).length <= 1000 && bare(text) === bare(word);
}
