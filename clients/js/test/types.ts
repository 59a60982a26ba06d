// Compiled only: the types let through what is meant, and nothing else.

import { displayCut, displayLine, displayText, Mailroom, MailroomError, Transcript } from '../mailroom.js';

export async function use(client: Mailroom): Promise<string> {
  const { thread, run } = await client.send('hello', { agent: 'echo', mode: 'queue' });
  // @ts-expect-error: no such mode
  await client.send('hello', { mode: 'sometime' });
  const transcript = new Transcript();
  for await (const event of client.follow({ thread, until: 'waiting', signal: AbortSignal.timeout(1000) })) {
    transcript.take(event);
    if (event.kind === 'settled' && event.run === run) return event.status;
    // @ts-expect-error: an entry has no delta
    if (event.kind === 'entry') event.delta;
  }
  for (const item of transcript.items) {
    if (item.kind === 'ticket') console.log(displayLine(item.ticket.name), displayCut(displayText(item.ticket.prompt), 100));
    if (item.kind === 'ticket') await client.decide(item.ticket.id, { decision: 'approve', digest: item.ticket.digest });
  }
  try {
    await client.cancel(run, { children: true });
  } catch (error) {
    if (error instanceof MailroomError && error.code === 'conflict') return error.detail;
  }
  return (await client.messages(thread)).items[0]?.text ?? '';
}
