// The order of the inbox: equal questions together.

/** The orders of questions, and how they are called. */
export const ORDERS = { oldest: 'Oldest first', newest: 'Newest first', expiry: 'Expires first' };

const opened = ({ opened_at: at }) => (at ? Date.parse(at) : 0); // 0: opened by an older version, long ago
const expires = ({ expires_at: at }) => (at ? Date.parse(at) : Infinity);
const BY = {
  oldest: (a, b) => opened(a) - opened(b),
  newest: (a, b) => opened(b) - opened(a),
  expiry: (a, b) => (expires(a) === expires(b) ? opened(a) - opened(b) : expires(a) - expires(b)),
};

/**
 * Groups of questions that are equal but for their arguments: of one agent, one kind and action, with one prompt. Each
 * is { key, agent, kind, action, prompt, tickets }. The groups are in the order of their first tickets. Tickets have the
 * field agent; agent and kind, if they are given, select some.
 */
export function grouped(tickets, { agent = '', kind = '', sort = 'oldest' } = {}) {
  const groups = new Map();
  const chosen = tickets.filter((ticket) => (!agent || ticket.agent === agent) && (!kind || ticket.kind === kind));
  for (const ticket of chosen.sort(BY[sort] ?? BY.oldest)) {
    const { agent: of, kind: sorted, action, prompt, name } = ticket;
    const key = JSON.stringify([of, sorted, action, prompt ?? (action ? null : name)]);
    const group = groups.get(key) ?? { key, agent: of, kind: sorted, action, prompt: prompt ?? action ?? name, tickets: [] };
    group.tickets.push(ticket);
    groups.set(key, group);
  }
  return [...groups.values()];
}
