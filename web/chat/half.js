// The page's half of the session of this browser. The cookie, which scripts cannot read, is the other half: browsers
// send it to every port of the host, and this one to no other origin. It is in IndexedDB, because the service worker
// (sw.js) reads it too.

const STORE = 'halves';
const KEY = 'session';

export class Half {
  #name;

  constructor(path) { this.#name = `mailroom ${path}`; }

  /** The half, null if this browser has no session, or keeps no data for this page. */
  async find() { return (await this.#do('readonly', (store) => store.get(KEY)).catch(() => null)) ?? null; }

  /** Keeps the half of a new session in place of a former one. */
  async keep(half) {
    await this.#do('readwrite', (store) => store.put(half, KEY)).catch((cause) => {
      throw new Error('This browser keeps no data for this page, so it has no sessions: allow it, or paste a token.', { cause });
    });
  }

  async drop() { await this.#do('readwrite', (store) => store.delete(KEY)).catch(() => {}); } // as in find

  async #do(mode, f) {
    const opening = indexedDB.open(this.#name);
    opening.onupgradeneeded = () => opening.result.createObjectStore(STORE);
    const db = await answerOf(opening);
    try {
      const transaction = db.transaction(STORE, mode);
      const done = new Promise((resolve, reject) => {
        transaction.oncomplete = () => resolve(undefined);
        transaction.onabort = () => reject(transaction.error);
      });
      const [answer] = await Promise.all([answerOf(f(transaction.objectStore(STORE))), done]);
      return answer;
    } finally {
      db.close();
    }
  }
}

/** @returns {Promise<any>} */
function answerOf(request) {
  return new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
}
