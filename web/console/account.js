// Who uses the console: a session in a cookie, which a link made, or a token that the user pastes.

import { Account } from '../chat/account.js';
import { Mailroom } from '../chat/client/mailroom.js';
import { signal } from '../vendor/preact.js';

const base = new URL('.', location.href);
const tokens = new Account(base.pathname);

/** The rights of the user, null before the sign-in. */
export const user = signal(null);

/** Why the user has to sign in, '' before the first try. */
export const refusal = signal('');

/** Whether the start is over, so that it is known whether the user must sign in. */
export const started = signal(false);

/** A link that would replace the session of this browser, or may: { secret, token }, null without one. token is null if the server did not say. */
export const pending = signal(null);

/** The client of the signed-in user. */
export let client = null;

/** Whether the user has a scope. */
export const may = (scope) => Boolean(user.value?.scopes.includes(scope));

/** Signs in with the link in the address, a session or a token of this browser. */
export async function start() {
  const secret = /^#sign-in=(.+)$/.exec(location.hash)?.[1];
  if (secret) {
    history.replaceState(null, '', '#/'); // the secret must not stay in the history
    const present = await presentSession();
    if (present) pending.value = { secret, token: present.token };
    else await signInWith(secret);
  } else if (!await enter(new Mailroom({ url: base, session: true, tries: 2 }), { quiet: true })) {
    const token = await tokens.find();
    if (token) await enter(new Mailroom({ url: base, token }));
  }
  started.value = true;
}

// presentSession returns the session of this browser, null if the server says that there is none. Its token is null if the server did not answer.
async function presentSession() {
  try {
    return await new Mailroom({ url: base, session: true, tries: 2 }).session();
  } catch (error) {
    return error.code === 'unauthenticated' ? null : { token: null };
  }
}

/** Uses the pending link, or stays signed in. A foreign link must not make a user act as another one unnoticed. */
export async function resolve(use) {
  const { secret } = pending.value;
  if (use) await signInWith(secret);
  else await enter(new Mailroom({ url: base, session: true }));
  pending.value = null;
}

async function signInWith(secret) {
  const session = new Mailroom({ url: base, session: true });
  try {
    await session.signIn(secret);
    await enter(session);
  } catch (error) {
    refusal.value = error.detail ?? error.message;
  }
}

/** Signs in with a token that the user pasted. */
export async function paste(token) {
  if (await enter(new Mailroom({ url: base, token, tries: 1 }))) {
    tokens.keep(token);
    client = new Mailroom({ url: base, token });
  }
}

async function enter(with_, { quiet = false } = {}) {
  try {
    const who = await with_.session();
    client = with_;
    user.value = who;
    refusal.value = '';
    return true;
  } catch (error) {
    if (!quiet || error.passing) refusal.value = error.code === 'unauthenticated' ? 'The server does not accept this token. Check that it is complete and was not revoked.' : error.detail ?? error.message;
    return false;
  }
}

/** Signs out, in all tabs. */
export async function leave() {
  if (user.value?.kind === 'session') await client.signOut().catch(() => {}); // it may have ended already
  tokens.forget();
  lose('');
}

/** Asks to sign in again, for example after the token was revoked. */
export function lose(why) {
  client = null;
  user.value = null;
  refusal.value = why;
}

tokens.onForgotten = () => lose('You signed out in another tab.');
