// A store as a fleet of 500 agents leaves it, for tests and measurements.

import { work } from '../../clients/js/worker/index.js';
import { senderOf } from './sender.js';

/** The numbers of the fleet: agents, runs that completed, equal questions, different questions, runs that failed. */
export const FLEET = { agents: 500, runs: 10_000, equal: 30, different: 20, failed: 101 };

/** How an agent of the worker asks: each message says what, as JSON. */
export const asks = async (s) => {
  const { kind = 'approval', ...question } = JSON.parse(s.text);
  return String(kind === 'approval' ? await s.approval('may', question) : await s.ask('what', question));
};

const channel = (name) => `[channels.${name}]\nkind = "poll"\nurl = "http://127.0.0.1:9"\nworkspace = "w"\ntoken_env = "HOME"\nagent = "agent-001"\n`;

/** The configuration of the fleet, whose channels are down. */
export const fleetConfig = (agents = FLEET.agents) => `stats_label = "customer"
[limits]
submits = 0
${Array.from({ length: agents - 2 }, (_, i) => `[agents.agent-${String(i).padStart(3, '0')}]\nkind = "echo"\npace = "0s"\n`).join('')}[agents.tour]
kind = "tour"
pace = "0s"
[agents.broken]
kind = "exec"
command = ["sh", "-c", "echo no route to the host >&2; exit 1"]
${channel('desk')}${channel('sales')}`;

/** Fills a server that has the configuration. Returns its client and ids of runs for pages. */
export async function fillFleet(t, server, { agents, runs, equal, different, failed } = FLEET) {
  const client = senderOf(server);
  const worker = work({ deployer: asks }, { url: server.url, token: server.token, slots: 64, log: { debug() {}, info() {}, warn() {}, error() {} } });
  t.after(() => worker.stop({ within: 1_000 }));
  await worker.ready;
  const jobs = [];
  for (let i = 0; i < runs; i++) {
    jobs.push({ thread: `order-${i % 2_000}`, agent: `agent-${String(i % (agents - 2)).padStart(3, '0')}`, text: `Check order ${i} of **customer ${i % 40}**`, metadata: { customer: `Customer ${i % 40}` } });
  }
  for (let i = 0; i < failed; i++) jobs.push({ thread: `lost-${i}`, agent: 'broken', text: `Deliver parcel ${i}`, max_attempts: 1 });
  for (let i = 0; i < equal; i++) {
    jobs.push({ thread: `site-${i}`, agent: 'deployer', text: JSON.stringify({ prompt: 'Deploy `web` to production?', action: 'run', arguments: { command: 'kubectl apply -f web.yaml', site: i } }) });
  }
  for (let i = 0; i < different; i++) {
    const question = i % 4 === 0 ? { kind: 'input', prompt: `Which title has essay ${i}?` } : { prompt: `May I ${['send letter', 'refund order', 'call customer'][i % 3]} ${i}?`, action: `step ${i}`, arguments: { text: 'x'.repeat(20 * i) } };
    jobs.push({ thread: `desk-${i}`, agent: 'deployer', text: JSON.stringify(question) });
  }
  const first = {};
  let next = 0;
  await Promise.all(Array.from({ length: 50 }, async () => {
    for (let job = jobs[next++]; job; job = jobs[next++]) {
      const { run } = await client.send(job);
      first[job.agent] ??= run;
    }
  }));
  const asked = (await client.send({ thread: 'asks', text: 'show me', agent: 'tour' })).run;
  for await (const _ of client.follow({ run: asked, until: 'waiting' }));
  await client.pauseAgent('agent-007', { reason: 'the provider is away' });
  for (let i = 0; i < 30; i++) await client.send({ thread: `held-${i % 5}`, text: `Wait for the provider, order ${i}`, agent: 'agent-007' });
  for (;;) {
    const { runs: now } = await client.stats();
    if (now.waiting >= equal + different + 1 && now.failed >= failed && now.running === 0 && now.queued <= 30) break;
  }
  return { client, failed: first.broken, completed: first['agent-001'], question: first.deployer, asked };
}

/** The pages of the console, and those of a fleet's runs and agents. */
export const pagesOf = ({ failed, completed, question, asked }) => [
  'overview', 'report', 'inbox', 'runs', 'failures', 'threads', 'search?q=order', 'tail', 'agents', 'schedules', 'budgets', 'channels', 'alerts', 'audit', 'tokens', 'agent/broken', 'agent/agent-007',
  `run/${failed}`, `run/${completed}`, `run/${question}`, `run/${asked}`,
];
