// The service worker of the pages: shows alerts that come with Web Push, also while no page is open, and keeps
// the files of the console for times without a network. It never stores what the API answers.
//
// A message is the JSON of package alert/target: { title, body, url, tag, urgent, repeated, buttons }. It was
// encrypted for this browser by the server that the pages come from.

// The pages may be below the path prefix of a proxy.
const scope = new URL('./', self.location.href);
const CACHE = `mailroom shell ${scope.pathname}`;

// SHELL matches the paths below the scope of the console's page and of what it loads.
const SHELL = /^$|^(console|vendor|chat\/client)\/[\w.-]+\.(js|css)$|^chat\/[\w.-]+\.(js|css|svg)$|^manifest\.webmanifest$/;

const DONE = { approve: 'Approved', deny: 'Denied', answer: 'Answered' };
const MOST = 2000; // characters of a text in a notification

self.addEventListener('install', () => self.skipWaiting());

self.addEventListener('activate', (event) => {
  // Files of earlier versions go; the next visit stores the present ones.
  event.waitUntil(caches.delete(CACHE).then(() => self.clients.claim()));
});

self.addEventListener('fetch', (event) => {
  const { request } = event;
  const url = new URL(request.url);
  const inScope = url.origin === scope.origin && url.pathname.startsWith(scope.pathname);
  if (request.method !== 'GET' || !inScope || url.search || !SHELL.test(url.pathname.slice(scope.pathname.length))) return;
  event.respondWith(load(event));
});

// load gets a file from the server, and from the cache only if the server cannot be reached.
async function load(event) {
  const cache = await caches.open(CACHE);
  try {
    const response = await fetch(event.request);
    if (response.status === 200 && response.type === 'basic' && !response.redirected) {
      const copy = response.clone();
      event.waitUntil(cache.put(event.request, copy).catch(() => {})); // the disk may be full; the page still works
    }
    return response;
  } catch (error) {
    const kept = await cache.match(event.request, { ignoreVary: true });
    if (kept) return kept;
    throw error;
  }
}

self.addEventListener('push', (event) => event.waitUntil(alertUser(event.data)));

// alertUser shows a message. Browsers require a notification for each one, so one that cannot be read is shown too.
function alertUser(data) {
  let message;
  try {
    message = data.json();
  } catch {
    message = null;
  }
  if (message === null || typeof message !== 'object') message = { title: 'An alert of Mailroom', body: 'It cannot be shown here. Open the console.' };
  const buttons = Array.isArray(message.buttons) ? message.buttons.slice(0, 2).filter(isButton) : [];
  return show({
    title: text(message.title) || 'Mailroom', body: text(message.body), tag: text(message.tag), urgent: message.urgent === true,
    renotify: message.repeated !== true, data: { title: text(message.title), body: text(message.body), tag: text(message.tag), url: text(message.url), buttons },
  });
}

const text = (value) => (typeof value === 'string' ? value.slice(0, MOST) : '');

const isButton = (button) => button !== null && typeof button === 'object' && ['label', 'url', 'body'].every((key) => typeof button[key] === 'string');

// show shows a notification, in place of one with the same tag.
function show({ title, body, tag, urgent, renotify, data }) {
  return self.registration.showNotification(title, {
    body, tag, data, icon: new URL('chat/icon.svg', scope).href, requireInteraction: urgent, renotify: renotify && tag !== '',
    actions: data.buttons.map(({ label }, at) => ({ action: String(at), title: label })),
  });
}

self.addEventListener('notificationclick', (event) => {
  event.notification.close();
  const data = event.notification.data ?? {};
  const button = event.action === '' ? undefined : data.buttons?.[Number(event.action)];
  event.waitUntil(button ? decide(data, button) : openPage(data.url));
});

// decide does what a button says, and shows the result in place of the question.
async function decide(data, button) {
  const url = pageOf(button.url);
  if (!url || url.origin !== scope.origin) return openPage(data.url); // the pages have another address than the server gives people
  const result = { title: data.title || 'Mailroom', tag: data.tag, urgent: false, renotify: false, data: { ...data, buttons: [] } };
  let response;
  try {
    response = await fetch(url, {
      method: 'POST', headers: { 'Content-Type': 'application/json' }, body: button.body, credentials: 'omit', cache: 'no-store', redirect: 'error', referrerPolicy: 'no-referrer',
    });
  } catch {
    // The request may have arrived: a repeat says who decided. The buttons stay, and so does what they decide.
    return show({ ...result, body: ['The server cannot be reached. Try again.', data.body].filter(Boolean).join('\n'), urgent: true, data });
  }
  const answer = await response.json().catch(() => null);
  if (!response.ok) return show({ ...result, body: sentence(text(answer?.detail)) || `Not decided: the server answered ${response.status}.` });
  return show({ ...result, body: outcome(answer?.ticket) });
}

const sentence = (words) => words && `${words[0].toUpperCase()}${words.slice(1)}${words.endsWith('.') ? '' : '.'}`;

// outcome says how a ticket ended.
function outcome(ticket) {
  if (ticket?.state === 'expired') return 'Too late: the question has expired, which counts as denied.';
  if (ticket?.state === 'void') return 'Too late: the run that asked has ended.';
  return `${DONE[ticket?.decision] ?? 'Decided'}.`;
}

// pageOf parses the address of a page; null if it is none.
function pageOf(address) {
  try {
    const url = new URL(address, scope);
    return url.protocol === 'https:' || url.protocol === 'http:' ? url : null;
  } catch {
    return null;
  }
}

// openPage shows a page, in its tab if one has it open.
async function openPage(address) {
  const url = (address && pageOf(address)) || scope;
  for (const client of await self.clients.matchAll({ type: 'window', includeUncontrolled: true })) {
    if (client.url === url.href) return client.focus();
  }
  return self.clients.openWindow(url.href);
}

// half returns the page's half of the session of this browser, or undefined if there is none, see chat/half.js. It does
// not make the database if no page has.
function half() {
  return new Promise((resolve) => {
    const opening = indexedDB.open(`mailroom ${scope.pathname}`);
    opening.onupgradeneeded = () => opening.transaction.abort();
    opening.onerror = () => resolve(undefined);
    opening.onsuccess = () => {
      const reading = opening.result.transaction('halves').objectStore('halves').get('session');
      reading.onsuccess = reading.onerror = () => {
        opening.result.close();
        resolve(reading.error ? undefined : reading.result);
      };
    };
  });
}

// The push service may replace a subscription. The server gets the new one with the session of this browser; without a
// session the page Alerts says that alerts are off.
self.addEventListener('pushsubscriptionchange', (event) => {
  const key = event.oldSubscription?.options.applicationServerKey;
  event.waitUntil((async () => {
    const subscription = event.newSubscription ?? (key ? await self.registration.pushManager.subscribe({ userVisibleOnly: true, applicationServerKey: key }) : null);
    if (!subscription) return;
    const { endpoint, keys: { p256dh, auth } } = subscription.toJSON();
    const response = await fetch(new URL('v1/push/subscriptions', scope), {
      method: 'POST', headers: { 'Content-Type': 'application/json', Authorization: `Session ${await half() ?? ''}` }, body: JSON.stringify({ endpoint, keys: { p256dh, auth } }), credentials: 'same-origin', redirect: 'error',
    });
    if (!response.ok) await show({ title: 'Alerts of this browser ended', body: 'Open the page Alerts of the console and turn them on again.', tag: 'subscription', urgent: false, renotify: false, data: { url: new URL('./#/alerts', scope).href, buttons: [] } });
  })());
});
