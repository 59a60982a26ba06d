// Runs the tests of the pages, two files at a time, in one browser. Arguments name files; without them all are run.
//
// node --test would run two files at a time too, but hold back the results of one file until the other has ended.

import { readdir } from 'node:fs/promises';
import { basename, join, resolve } from 'node:path';
import { PassThrough } from 'node:stream';
import { run } from 'node:test';
import { fileURLToPath } from 'node:url';

import report from '../../clients/js/test/report.js';
import { serveBrowser } from './browser.js';

/** The slowest files begin first, so that the two that run last are short. The morning waits for minutes, and computes little. */
const slowest = ['morning.test.js', 'inbox.test.js', 'console.test.js', 'chat.test.js', 'console-pages.test.js', 'hostile.test.js', 'docs.test.js', 'live.test.js', 'push.test.js', 'rules.test.js'];

const place = (file) => (slowest.includes(basename(file)) ? slowest.indexOf(basename(file)) : slowest.length);

async function all() {
  const folder = fileURLToPath(new URL('.', import.meta.url));
  return (await readdir(folder)).filter((name) => name.endsWith('.test.js')).sort().map((name) => join(folder, name));
}

/** Runs files until none is left, and adds their events. */
async function work(files, events) {
  for (let file = files.shift(); file; file = files.shift()) {
    for await (const event of run({ files: [file], timeout: 1_800_000 })) {
      if (event.type === 'test:fail') process.exitCode = 1;
      events.write(event);
    }
  }
}

const files = process.argv.length > 2 ? process.argv.slice(2).map((file) => resolve(file)) : await all();
files.sort((a, b) => place(a) - place(b));
const close = await serveBrowser();
try {
  const events = new PassThrough({ objectMode: true });
  const done = Promise.all([work(files, events), work(files, events)]).finally(() => events.end());
  for await (const text of report(events)) process.stdout.write(text);
  await done;
} finally {
  await close();
}
