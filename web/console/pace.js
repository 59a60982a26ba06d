// How often an open page asks again: pure, without the document.

const REST = 1_000; // milliseconds between two requests that entries cause, at least
const SHARE = 9; // times as long as the last request took, so that an open page keeps a busy server busy for a tenth of the time
const LONGEST = 10_000;

/**
 * Paces what entries cause: the first one loads at once, and what comes in the rest after a load causes one more at its end.
 * load returns a promise. Returns a function for each batch of entries, and one that ends the pacing.
 */
export function paced(load) {
  let timer = null;
  let asked = false;
  let ended = false;
  const go = async () => {
    asked = false;
    const began = performance.now();
    timer = 0; // it loads
    await load();
    if (ended) return;
    timer = setTimeout(() => {
      timer = null;
      if (asked) go();
    }, Math.min(LONGEST, Math.max(REST, SHARE * (performance.now() - began))));
  };
  return {
    ask() {
      asked = true;
      if (timer === null && !ended) go();
    },
    end() {
      ended = true;
      clearTimeout(timer);
    },
  };
}
