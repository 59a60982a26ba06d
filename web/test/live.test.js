// The stream that keeps the console up to date.

import { after, before, test } from 'node:test';

import { open } from '../../clients/js/test/server.js';
import { launch, openPage, signIn } from './browser.js';

let context;
let close;
before(async () => { [context, close] = await launch(); });
after(() => close());

test('the console goes on after the server refused its stream for a while', async (t) => {
  const server = await open(t);
  const page = await openPage(t, context);
  let refusals = 3;
  await page.route('**/v1/stream', (route) => (refusals-- > 0
    ? route.fulfill({ status: 403, contentType: 'application/problem+json', body: JSON.stringify({ status: 403, code: 'forbidden', detail: 'not now' }) })
    : route.continue()));
  await signIn(page, (await server.command('open')).trim());
  await page.locator('nav .connection[data-tone="good"]').waitFor({ timeout: 60_000 });
});
