// A worker in a process of its own, which a test kills or stops. It says on stdout where it is.

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

const silent = { debug() {}, info() {}, warn: (message) => console.log(message), error() {} };
const worker = work('js', modes[process.argv[2]], { log: silent, stopOn: ['SIGTERM'] });
await worker.ready;
console.log('ready');
await worker.done;
console.log('stopped');
