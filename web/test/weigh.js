// Measures the console on a store of 500 agents and 10,000 runs: requests and bytes of each page at the first and the second
// visit, and the processor time of the server and of the page while 50 entries a second come. Prints tables in Markdown.
//
// node test/weigh.js [--seconds 30]

import { readFile } from 'node:fs/promises';
import { parseArgs } from 'node:util';

import { open } from '../../clients/js/test/server.js';
import { launch, signIn } from './browser.js';
import { fillFleet, fleetConfig, pagesOf } from './fleet.js';

const { values: { seconds } } = parseArgs({ options: { seconds: { type: 'string', default: '30' } } });
const QUIET = 1_500; // milliseconds without a request, after which a page has loaded
const RATE = 50; // entries a second
const BATCH = 5; // entries of a run of the agent echo that replies with one word

const wait = (ms) => new Promise((resolve) => { setTimeout(resolve, ms); });

/** Counts what a page requests, without its streams, which do not end. */
async function meter(page) {
  const session = await page.context().newCDPSession(page);
  await session.send('Network.enable');
  const now = { requests: 0, files: 0, bytes: 0, at: Date.now(), paths: new Map() };
  const paths = new Map();
  session.on('Network.requestWillBeSent', ({ requestId, request: { url } }) => {
    now.at = Date.now();
    paths.set(requestId, new URL(url).pathname);
  });
  session.on('Network.responseReceived', ({ requestId, response }) => {
    if (response.mimeType === 'text/event-stream') paths.delete(requestId);
  });
  session.on('Network.loadingFinished', ({ requestId, encodedDataLength }) => {
    const path = paths.get(requestId);
    if (path === undefined) return;
    now.at = Date.now();
    now.requests++;
    now.bytes += encodedDataLength;
    if (!path.startsWith('/v1/')) now.files++;
    now.paths.set(path, (now.paths.get(path) ?? 0) + 1);
  });
  return {
    now,
    /** Waits until the page requests nothing, and returns what it requested since the last call. */
    async take() {
      while (Date.now() - now.at < QUIET) await wait(100);
      const taken = { ...now, paths: new Map(now.paths) };
      Object.assign(now, { requests: 0, files: 0, bytes: 0 });
      now.paths.clear();
      return taken;
    },
  };
}

/** Processor time of a process in milliseconds: user and system, in ticks of 10 ms. */
async function processorTime(pid) {
  const fields = (await readFile(`/proc/${pid}/stat`, 'utf8')).split(') ')[1].split(' ');
  return (Number(fields[11]) + Number(fields[12])) * 10;
}

const kilobytes = (n) => (n / 1024).toFixed(n < 10_240 ? 1 : 0);
const row = (...cells) => console.log(`| ${cells.join(' | ')} |`);

/** Opens each page with an empty cache, and once more. */
async function weighPages(server, routes) {
  console.log('\n| page | first visit: requests, of them files | KiB | second visit: requests, of them files | KiB |');
  row('---', '---', '---', '---', '---');
  for (const route of routes) {
    const [context, close] = await launch({ reducedMotion: 'reduce', serviceWorkers: 'block' });
    const page = await context.newPage();
    await signIn(page, (await server.command('open')).trim()); // then the browser has the session, and the files
    await page.getByRole('navigation', { name: 'Pages' }).waitFor();
    const visits = [];
    const session = await context.newCDPSession(page);
    await session.send('Network.enable');
    await session.send('Network.clearBrowserCache');
    for (let visit = 0; visit < 2; visit++) {
      await page.goto('about:blank');
      const of = await meter(page);
      await page.goto(`${server.url}/#/${route}`);
      await page.locator('main h1').waitFor();
      visits.push(await of.take());
    }
    const twice = [...visits[0].paths].filter(([, n]) => n > 1).map(([path, n]) => `${path} ${n} times`);
    row(route.split(/[?]/)[0].replace(/^run\/.*/, 'run'), ...visits.flatMap(({ requests, files, bytes }) => [`${requests}, ${files}`, kilobytes(bytes)]));
    if (twice.length > 0) console.error(`${route}: ${twice.join(', ')}`);
    await close();
  }
}

/** Sends short messages, so that about RATE entries a second come, until stop is aborted. */
async function load(client, stop) {
  let runs = 0;
  while (!stop.aborted) {
    await Promise.all([client.send({ thread: `load-${runs++ % 50}`, agent: 'agent-001', text: 'hi' }), wait(1_000 * BATCH / RATE)]);
  }
}

/** Measures the processor time of the server and of each page while entries come. */
async function weighStream(server, client, routes) {
  console.log(`\n| page, open for ${seconds} s at ${RATE} entries a second | requests a second | CPU of the server | CPU of the page | of it scripts |`);
  row('---', '---', '---', '---', '---');
  for (const route of ['', ...routes]) {
    const [context, close] = await launch({ reducedMotion: 'reduce', serviceWorkers: 'block' });
    const page = await context.newPage();
    let of = null;
    let session = null;
    if (route) {
      await signIn(page, (await server.command('open')).trim());
      await page.getByRole('navigation', { name: 'Pages' }).waitFor();
      await page.goto('about:blank');
      of = await meter(page);
      await page.goto(`${server.url}/#/${route}`);
      await page.locator('nav .connection[data-tone="good"]').waitFor({ state: 'attached' });
      await of.take();
      session = await context.newCDPSession(page);
      await session.send('Performance.enable', { timeDomain: 'threadTicks' });
    }
    const used = async () => {
      const metrics = session ? (await session.send('Performance.getMetrics')).metrics : [];
      const metric = (name) => (metrics.find((one) => one.name === name)?.value ?? 0) * 1000;
      return { server: await processorTime(server.pid), page: metric('TaskDuration'), script: metric('ScriptDuration') };
    };
    const stop = new AbortController();
    const done = load(client, stop.signal);
    await wait(3_000);
    const [before, asked, began] = [await used(), of?.now.requests ?? 0, performance.now()];
    await wait(Number(seconds) * 1000);
    const [after, then, took] = [await used(), of?.now.requests ?? 0, performance.now() - began];
    stop.abort();
    await done;
    const share = (name) => `${((after[name] - before[name]) / took * 100).toFixed(1)} %`;
    row(route.replace(/^run\/.*/, 'run') || 'none', ((then - asked) / took * 1000).toFixed(1), share('server'), ...(route ? [share('page'), share('script')] : ['–', '–']));
    await close();
  }
}

const ends = [];
const t = { after: (end) => ends.unshift(end) };
try {
  const server = await open(t, fleetConfig());
  const fleet = await fillFleet(t, server);
  const routes = pagesOf(fleet);
  await weighPages(server, routes.filter((route) => route !== `run/${fleet.completed}` && route !== 'agent/agent-007' && route !== `run/${fleet.question}`));
  await weighStream(server, fleet.client, ['overview', 'inbox', 'runs', 'threads', 'tail', 'agents', 'agent/agent-001', 'failures', 'audit']);
} finally {
  for (const end of ends) await end();
}
process.exit();
