// Who uses the pages of this server: a session that a link made, or a token that the user pasted. Console and chat share
// it, so who is signed in at one of them is signed in at the other.

import { Account } from './account.js';
import { Mailroom } from './client/mailroom.js';
import { Half } from './half.js';

export class SignIn {
  /** The client of the user, null without one. */
  client = null;

  /** The rights of the user, null without one. */
  who = null;

  #base;
  #tokens;
  #half;
  #needs;
  #act;
  #hasEnded = false; // the server did not know the user any more: the reason may come after it, from another tab
  #entering = 0; // number of the newest try, which alone counts: a token of another tab may arrive while the user acts

  /**
   * changed is called when client and who have changed or a try to sign in has failed, with a sentence for the user, or
   * ''. left is called before it if the user signed out: the next one may be another person.
   * @param {URL} base of the API
   * @param {{ changed: (why: string) => void, left?: () => void }} act
   * @param {string} [needs] scope without which the page shows nothing
   */
  constructor(base, act, needs = '') {
    [this.#base, this.#act, this.#needs] = [base, act, needs];
    this.#tokens = new Account(base.pathname);
    this.#half = new Half(base.pathname);
    this.#tokens.onGiven = (token) => this.#enter({ token });
    this.#tokens.onForgotten = () => (this.who || this.#hasEnded) && this.#leave('You signed out in another tab.');
    this.#tokens.onSession = () => !this.who && this.resume();
  }

  /**
   * Signs in as before: with a token of this tab, the session of this browser, or a token of another tab. While the
   * server cannot be reached, it tries again.
   */
  async resume() {
    const token = this.#tokens.token; // it has precedence over a session that another tab made
    if (token) return this.#enter({ token });
    const session = await this.#half.find();
    if (session && await this.#enter({ session }, { quiet: true })) return true;
    const given = await this.#tokens.find();
    return given ? this.#enter({ token: given }) : false;
  }

  /** Whose session a link makes, see showLink of the client. */
  show(secret) { return new Mailroom({ url: this.#base, tries: 2 }).showLink(secret); }

  /** Makes a session with a link. It replaces what signs this tab in. */
  async use(secret) {
    try {
      const made = await new Mailroom({ url: this.#base }).signIn(secret);
      await this.#half.keep(made.half);
      this.#tokens.drop(); // the user chose the session for this tab
      if (await this.#enter({ session: made.half })) this.#tokens.announce();
    } catch (error) {
      this.#act.changed(error.detail ?? error.message);
    }
  }

  /** Signs in with a token that the user pasted. It is kept when the server has accepted it. */
  async paste(token) {
    this.#tokens.drop(); // from now on no other tab can pass its token
    if (await this.#enter({ token }, { tries: 1 })) this.#tokens.keep(token);
  }

  /** Signs out, in all tabs. */
  async leave() {
    if (this.who?.kind === 'session') { // first: the user may close the page as soon as it says that they are out
      await this.client.signOut().catch(() => {}); // it may have ended already
      await this.#half.drop();
    }
    this.#tokens.forget();
    this.#leave('');
  }

  #leave(why) {
    this.#hasEnded = false;
    this.#act.left?.();
    this.#lose(why);
  }

  /** Asks to sign in again, because the server no longer knows the user. */
  ended() {
    if (!this.who) return; // it left before the answer to an earlier call
    this.#hasEnded = true;
    this.#lose(this.who?.kind === 'session' ? 'The session has ended. Sign in again.'
      : 'The server no longer accepts this token. It may have been revoked: give another one.');
  }

  #lose(why) {
    this.#entering++;
    this.#tokens.drop();
    [this.client, this.who] = [null, null];
    this.#act.changed(why);
  }

  async #enter(credentials, { quiet = false, tries = Infinity } = {}) {
    const turn = ++this.#entering;
    let why = '';
    try {
      const who = await new Mailroom({ url: this.#base, ...credentials, tries }).session();
      if (turn !== this.#entering) return false;
      if (!this.#needs || who.scopes.includes(this.#needs)) {
        this.#hasEnded = false;
        [this.client, this.who] = [new Mailroom({ url: this.#base, ...credentials }), who];
        this.#act.changed('');
        return true;
      }
      why = `${who.kind === 'session' ? 'The user of this browser' : 'This token'} may not ${this.#needs} threads. The page needs a token with the scopes read, submit and decide.`;
    } catch (error) {
      if (turn !== this.#entering) return false;
      if (error.code !== 'unauthenticated') why = error.passing ? `Cannot reach the server: ${error.detail ?? error.message}` : error.detail ?? error.message;
      else if (!quiet) why = 'The server does not accept this token. Check that it is complete and was not revoked.';
    }
    if (why) this.#act.changed(why);
    return false;
  }
}
