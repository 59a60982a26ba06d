// Keeps the token in the tab's session storage and passes it to new tabs. It is never in
// a URL, a cookie, or storage that outlives the browser.

const KEY = 'mailroom.token';
const HANDOVER = 250; // milliseconds that a page without a token is not shown, because another tab may pass one

export class Account {
  onForgotten = () => {}; // another tab signed out
  onSession = () => {}; // another tab made a session of this browser
  /** @type {(token: string) => void} */
  onGiven = () => {}; // another tab passed its token after find had given up: a tab in the background is slow
  #channel;
  #asked = false; // an answer of another tab is still welcome
  #waiting = null;

  constructor(path) {
    this.#channel = new BroadcastChannel(`mailroom ${path}`); // of this origin only
    this.#channel.onmessage = ({ data }) => this.#heard(data);
  }

  get token() { return sessionStorage.getItem(KEY); }

  /** The token of this tab, else that of another one, else null. */
  async find() {
    if (this.token) return this.token;
    this.#asked = true;
    this.#channel.postMessage({ ask: true });
    const given = await new Promise((resolve) => {
      this.#waiting = resolve;
      setTimeout(resolve, HANDOVER, null);
    });
    this.#waiting = null;
    return given;
  }

  keep(token) {
    this.#asked = false;
    sessionStorage.setItem(KEY, token);
  }

  /** Removes the token from this tab, which takes no answer of another one from now on. */
  drop() {
    this.#asked = false;
    sessionStorage.removeItem(KEY);
  }

  /** Removes the token from all tabs, and signs all of them out. */
  forget() {
    this.drop();
    this.#channel.postMessage({ forget: true });
  }

  /** Tells the other tabs that this browser has a session. */
  announce() { this.#channel.postMessage({ session: true }); }

  #heard({ ask, token, forget, session }) {
    if (ask && this.token) {
      this.#channel.postMessage({ token: this.token });
    } else if (token && this.#asked) {
      this.keep(token);
      if (this.#waiting) this.#waiting(token);
      else this.onGiven(token);
    } else if (forget) {
      this.drop();
      this.onForgotten();
    } else if (session) {
      this.onSession();
    }
  }
}
