// The subscription of this browser to alerts (Web Push).

import { client } from './account.js';
import { script } from './trusted.js';

/** Returns '' if this browser can get alerts, otherwise a word for why not. */
export function obstacle() {
  if (!globalThis.isSecureContext) return 'insecure';
  if ('serviceWorker' in navigator && 'PushManager' in globalThis && 'Notification' in globalThis) return '';
  return mustInstall() ? 'install' : 'unsupported';
}

// Safari on phones and tablets has Web Push only for pages that are on the home screen. An iPad says that it is a Mac.
function mustInstall() {
  return /iPhone|iPad|iPod/.test(navigator.userAgent) || /Macintosh/.test(navigator.userAgent) && navigator.maxTouchPoints > 1;
}

/** The id that the server gives a subscription, see GET /v1/push. */
export async function idOf(endpoint) {
  const sum = await crypto.subtle.digest('SHA-256', new TextEncoder().encode(endpoint));
  return Array.from(new Uint8Array(sum).slice(0, 16), (byte) => byte.toString(16).padStart(2, '0')).join('');
}

const registration = () => navigator.serviceWorker.getRegistration('./');

/** The subscription of this browser, or null. */
export async function own() {
  if (obstacle()) return null;
  return (await (await registration())?.pushManager.getSubscription()) ?? null;
}

/** Subscribes this browser, with the permission of its user, to the public key of the server. */
export async function turnOn(publicKey) {
  if (await Notification.requestPermission() !== 'granted') throw new Error('This browser does not allow notifications of this page.');
  const at = await navigator.serviceWorker.register(script('push'), { scope: './' });
  await navigator.serviceWorker.ready;
  const before = await at.pushManager.getSubscription();
  if (before && !hasKey(before, publicKey)) await before.unsubscribe(); // the server has another key now
  const made = await at.pushManager.subscribe({ userVisibleOnly: true, applicationServerKey: publicKey });
  const { endpoint, keys: { p256dh, auth } } = made.toJSON();
  await client.subscribePush({ endpoint, keys: { p256dh, auth } });
}

/** Whether a subscription is for a public key in base64url. */
export function hasKey(subscription, publicKey) {
  const key = subscription.options?.applicationServerKey;
  if (!key) return false;
  const encoded = btoa(String.fromCharCode(...new Uint8Array(key))).replaceAll('+', '-').replaceAll('/', '_').replace(/=+$/, '');
  return encoded === publicKey;
}

/** Ends the subscription of this browser, here and at the server. */
export async function turnOff() {
  const made = await own();
  if (!made) return;
  const id = await idOf(made.endpoint);
  await made.unsubscribe(); // first, so that nothing is shown even if the server cannot be reached
  try {
    await client.unsubscribePush(id);
  } catch (error) {
    if (error.code !== 'not_found') throw error;
  }
}
