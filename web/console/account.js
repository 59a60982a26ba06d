// Who uses the console.

import { SignIn } from '../chat/signin.js';
import { signal } from '../vendor/preact.js';

const door = new SignIn(new URL('.', location.href), {
  changed(why) {
    client = door.client;
    user.value = door.who;
    refusal.value = why;
  },
});

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
 * Signs in as before. A link in the address is asked about first: its maker would see what the user does.
 */
export async function start() {
  const secret = /^#sign-in=(.+)$/.exec(location.hash)?.[1];
  if (secret) history.replaceState(null, '', '#/'); // the secret must not stay in the history
  await door.resume();
  if (secret) await ask(secret);
  started.value = true;
}

async function ask(secret) {
  try {
    pending.value = { secret, link: await door.show(secret) };
  } catch (error) {
    refusal.value = error.detail ?? error.message;
  }
}

/** Uses the pending link, or goes on without it. */
export async function resolve(use) {
  if (use) await door.use(pending.value.secret);
  pending.value = null;
}

/** Signs in with a token that the user pasted. */
export const paste = (token) => door.paste(token);

/** Signs out, in all tabs. */
export const leave = () => door.leave();

/** Asks to sign in again, because the server no longer knows the user. */
export const lose = () => door.ended();
