// Sending a decision while a person watches.

const SOON = 8_000; // milliseconds in which a decision has to be answered

/**
 * Decides a ticket within seconds, or withdraws the decision and says so: one that waits for a connection would be
 * made later, when the person may have decided otherwise. Returns the ticket.
 */
export async function decideSoon(client, id, decision) {
  const late = AbortSignal.timeout(SOON);
  try {
    return await client.decide(id, { ...decision, signal: late });
  } catch (error) {
    if (!late.aborted) throw error;
  }
  const ticket = await client.ticket(id, { signal: AbortSignal.timeout(SOON) }).catch(() => null);
  if (!ticket) throw new Error('The server does not answer. The decision was withdrawn, unless it arrived before: the question shows that once the connection is back.');
  if (ticket.state === 'open') throw new Error('The server did not take the decision in time, so it was withdrawn. Decide again.');
  return ticket;
}
