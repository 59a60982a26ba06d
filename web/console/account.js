// Who uses the console: a session that a link made, or a token that the user pastes.

import { Account } from '../chat/account.js';
import { Mailroom } from '../chat/client/mailroom.js';
import { Half } from '../chat/half.js';
import { signal } from '../vendor/preact.js';

const base = new URL('.', location.href);
const tokens = new Account(base.pathname);
const half = new Half(base.pathname);

/** The rights of the user, null before the sign-in. */
export const user = signal(null);

/** Why the user has to sign in, '' before the first try. */
export const refusal = signal('');

/** Whether the start is over, so that it is known whether the user must sign in. */
export const started = signal(false);

/** A link that the user has to agree to: { secret, link }, null without one. link says whose session it makes. */
export const pending = signal(null);

/** The client of the signed-in user. */
export let client = null;

/** Whether the user has a scope. */
export const may = (scope) => Boolean(user.value?.scopes.includes(scope));

/**
 * Signs in as before: with a token of this tab, the session of this browser, or a token of another tab. A link in the
 * address is asked about first: its maker would see what the user does.
 */
export async function start() {
  const secret = /^#sign-in=(.+)$/.exec(location.hash)?.[1];
  if (secret) history.replaceState(null, '', '#/'); // the secret must not stay in the history
  await resume();
  if (secret) await ask(secret);
  started.value = true;
}

async function resume() {
  const token = tokens.token;
  if (token) return enter(new Mailroom({ url: base, token })); // it has precedence over a session that another tab made
  const session = await half.find();
  if (session && await enter(new Mailroom({ url: base, session, tries: 2 }), { quiet: true })) return true;
  const given = await tokens.find();
  return given ? enter(new Mailroom({ url: base, token: given })) : false;
}

async function ask(secret) {
  try {
    pending.value = { secret, link: await new Mailroom({ url: base, tries: 2 }).showLink(secret) };
  } catch (error) {
    refusal.value = error.detail ?? error.message;
  }
}

/** Uses the pending link, or goes on without it. */
export async function resolve(use) {
  if (use) await signInWith(pending.value.secret);
  pending.value = null;
}

async function signInWith(secret) {
  try {
    const made = await new Mailroom({ url: base }).signIn(secret);
    await half.keep(made.half);
    tokens.drop(); // the user chose the session for this tab
    await enter(new Mailroom({ url: base, session: made.half }));
  } catch (error) {
    refusal.value = error.detail ?? error.message;
  }
}

/** Signs in with a token that the user pasted. */
export async function paste(token) {
  tokens.drop(); // from now on no other tab can pass its token
  if (await enter(new Mailroom({ url: base, token, tries: 1 }))) {
    tokens.keep(token);
    client = new Mailroom({ url: base, token });
  }
}

let entering = 0; // number of the newest try, which alone counts: a token of another tab may arrive while the user acts

async function enter(with_, { quiet = false } = {}) {
  const turn = ++entering;
  try {
    const who = await with_.session();
    if (turn !== entering) return false;
    client = with_;
    user.value = who;
    refusal.value = '';
    return true;
  } catch (error) {
    if (turn !== entering) return false;
    if (!quiet || error.passing) refusal.value = error.code === 'unauthenticated' ? 'The server does not accept this token. Check that it is complete and was not revoked.' : error.detail ?? error.message;
    return false;
  }
}

/** Signs out, in all tabs. */
export async function leave() {
  if (user.value?.kind === 'session') {
    await client.signOut().catch(() => {}); // it may have ended already
    await half.drop();
  }
  tokens.forget();
  lose('');
}

/** Asks to sign in again, for example after the token was revoked. */
export function lose(why) {
  entering++;
  client = null;
  user.value = null;
  refusal.value = why;
}

tokens.onGiven = (token) => enter(new Mailroom({ url: base, token }));
tokens.onForgotten = () => lose('You signed out in another tab.');
