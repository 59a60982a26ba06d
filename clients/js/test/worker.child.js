// A worker in a process of its own, which a test kills or stops. It says on stdout where it is.

import { fork } from 'node:child_process';

import { work } from '../worker/index.js';

const modes = {
  /** Never leaves its effect. */
  inside: (s) => s.effect('pay', () => {
    console.log('inside');
    return new Promise(() => {});
  }),
  /** Writes until its claim is lost, after the effect. */
  after: async (s) => {
    await s.effect('pay', () => { console.log('paid'); return 7; });
    console.log('after');
    try {
      for (;;) {
        await s.step({ name: 'still here' });
        await new Promise((resolve) => { setTimeout(resolve, 50); });
      }
    } catch (error) {
      console.log(error.name);
      throw error;
    }
  },
  /** Blocks its event loop for longer than a lease. */
  blocked: (s) => {
    if (s.run.attempt > 1) return 'went on';
    console.log('blocked');
    const until = Date.now() + 10_000;
    while (Date.now() < until);
    return 'too late';
  },
};

/** What handlers should not do, each in its first attempt. */
Object.assign(modes, {
  /** Forks this program, which serves as a worker of its own and is killed. */
  forks: async (s) => {
    const child = fork(process.argv[1], ['idle'], { silent: true });
    const ended = new Promise((resolve) => { child.once('exit', resolve); });
    await new Promise((resolve) => { child.stdout.once('data', resolve); });
    const value = await s.effect('pay', () => 7);
    child.kill('SIGKILL');
    await ended;
    return `paid ${value}`;
  },
  idle: (s) => `idle ${s.text}`,
  /** Closes stdout and its descriptor, and goes on printing. */
  closes: async (s) => {
    process.stdout.on('error', () => {});
    process.stdout.end();
    console.log('into a closed stream');
    return `closed ${await s.effect('pay', () => 7)}`;
  },
  /** Ends the process in the middle. */
  exits: async (s) => {
    const value = await s.effect('pay', () => 7);
    if (s.run.attempt === 1) process.exit(3);
    return `again ${value}`;
  },
});

const silent = { debug() {}, info() {}, warn: (message) => console.log(message), error() {} };
const worker = work('js', modes[process.argv[2]], { log: silent, stopOn: ['SIGTERM'] });
await worker.ready;
console.log('ready');
await worker.done;
console.log('stopped');
