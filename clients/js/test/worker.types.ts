// Compiled only: the types of a worker let through what is meant, and nothing else.

import { Failure, LeaseLost, Parked, Stopped, Unknown, work, type Session } from '../worker/index.js';

async function handler(s: Session): Promise<string | void> {
  await s.write(s.text);
  const reconcile = async () => ({ value: { id: 1 } });
  const { id } = await s.effect('pay', async (key) => ({ id: key.length }), { input: { to: 'anna' }, reconcile });
  // @ts-expect-error: a reconcile returns the value of the effect
  await s.effect('pay', () => 1, { reconcile: () => ({ value: 'one' }) });
  const question = { prompt: `Pay ${id}?`, action: 'pay', arguments: { id }, expires: '10m' };
  const yes: boolean = await s.approval('may', question);
  if (!yes) return s.ticket('may')?.reason ?? '';
  // @ts-expect-error: a step has no text
  await s.step({ text: 'x' });
  const sends = [{ name: 'note', agent: 'poet', text: 'x', answer: 'wake' as const }];
  await s.step({ name: 'paid', usage: { output_tokens: 3 }, sends }, { afterStop: true });
  const child = await s.call('poem', { agent: 'poet', text: 'rain', priority: 1 });
  const entries = await s.log({ kinds: ['message'], limit: 5 });
  if (entries.length > 3) throw new Failure('too long', { class: 'permanent', retryAfter: 1000 });
  // @ts-expect-error: no such class
  if (entries.length > 4) throw new Failure('too long', { class: 'never' });
  return child.reply;
}

export async function serve(): Promise<string> {
  const worker = work('js', handler, { slots: 8, stopOn: ['SIGTERM'], log: console });
  const both = work({ one: handler, two: () => 'done', three: () => {} }, { signal: AbortSignal.timeout(1000) });
  // @ts-expect-error: a handler returns text or nothing
  work('js', () => 7);
  await worker.ready;
  await both.stop({ within: 1000 });
  return [new Parked(), new Stopped(), new LeaseLost(), new Unknown()].map(({ name }) => name).join();
}
