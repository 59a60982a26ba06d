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

// A prompt without its numbers, such as versions and dates.
const pattern = (prompt) => prompt.replace(/\d+(?:[.,:-]?\d+)*/g, '…');

/**
 * Groups of questions that are equal but for their arguments and the numbers in their prompts: of one agent, one kind and
 * one action. Each is { key, agent, kind, action, prompt, differ, tickets }; if its prompts differ, prompt has … in place
 * of the numbers. The groups are in the order of their first tickets. Tickets have the field agent; agent and kind, if
 * they are given, select some.
 */
export function grouped(tickets, { agent = '', kind = '', sort = 'oldest' } = {}) {
  const groups = new Map();
  const chosen = tickets.filter((ticket) => (!agent || ticket.agent === agent) && (!kind || ticket.kind === kind));
  for (const ticket of chosen.sort(BY[sort] ?? BY.oldest)) {
    const { agent: of, kind: sorted, action } = ticket;
    const prompt = ticket.prompt ?? action ?? ticket.name;
    const key = JSON.stringify([of, sorted, action, pattern(prompt)]);
    const group = groups.get(key) ?? { key, agent: of, kind: sorted, action, prompt, differ: false, tickets: [] };
    if (group.prompt !== prompt) Object.assign(group, { differ: true, prompt: pattern(prompt) });
    group.tickets.push(ticket);
    groups.set(key, group);
  }
  return [...groups.values()];
}
