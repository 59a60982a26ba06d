// Keeps the token in the tab's session storage and passes it to new tabs. It is never in
// a URL, a cookie, or storage that outlives the browser.

const KEY = 'mailroom.token';
const HANDOVER = 250; // milliseconds to wait for another tab

export class Account {
  onForgotten = () => {}; // another tab forgot it
  #channel;
  #waiting = null;

  constructor(path) {
    this.#channel = new BroadcastChannel(`mailroom ${path}`); // of this origin only
    this.#channel.onmessage = ({ data }) => this.#heard(data);
  }

  get token() { return sessionStorage.getItem(KEY); }

  /** The token of this tab, else that of another one, else null. */
  async find() {
    if (this.token) return this.token;
    this.#channel.postMessage({ ask: true });
    const given = await new Promise((resolve) => {
      this.#waiting = resolve;
      setTimeout(resolve, HANDOVER, null);
    });
    this.#waiting = null;
    if (given) this.keep(given);
    return given;
  }

  keep(token) { sessionStorage.setItem(KEY, token); }

  /** Removes the token from this tab. */
  drop() { sessionStorage.removeItem(KEY); }

  /** Removes the token from all tabs. */
  forget() {
    this.drop();
    this.#channel.postMessage({ forget: true });
  }

  #heard({ ask, token, forget }) {
    if (ask && this.token) {
      this.#channel.postMessage({ token: this.token });
    } else if (token) {
      this.#waiting?.(token);
    } else if (forget && this.token) {
      this.drop();
      this.onForgotten();
    }
  }
}
