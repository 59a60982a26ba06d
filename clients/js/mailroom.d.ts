// Types of mailroom.js. What the server sends is described at /openapi.json.

export type Code =
  | 'invalid' | 'unauthenticated' | 'forbidden' | 'not_found' | 'conflict' | 'busy' | 'lease_lost' | 'gone' | 'quota'
  | 'too_large' | 'rate_limited' | 'internal' | 'unavailable'
  /** No server and no worker serves the agent: start its worker. A server of an older version says invalid. */
  | 'unserved'
  /** What answers at the address is no Mailroom server, or its certificate is not trusted. */
  | 'incompatible' | 'certificate';

export type RunStatus = 'queued' | 'running' | 'waiting' | 'completed' | 'failed' | 'cancelled';
export type Finished = 'completed' | 'failed' | 'cancelled';
export type Mode = 'queue' | 'steer' | 'interrupt' | 'latest' | 'collect' | 'reject';

/** Bounds of what a run may use. An absent one is no bound. */
export interface Budget {
  /** US dollars, exact to a millionth. */
  usd?: number;
  /** Input and output tokens. */
  tokens?: number;
  /** Steps that report a usage, as of one call of a model. */
  turns?: number;
  /** Nothing begins from then on. */
  until?: string;
}

/** What is left of the bounds of a budget; 0 or less: nothing. */
export type BudgetLeft = Budget;

export interface RunBudget {
  /** With what it lends, and with what people added. */
  limit: Budget;
  /** By the run, and by the runs that it sent and that have ended. */
  spent: { usd?: number; tokens?: number; turns?: number };
  /** To runs that it sent and that are open. */
  lent: { usd?: number; tokens?: number; turns?: number };
  left: BudgetLeft;
}

/** The budget of an agent or a token, in the day or month that has begun. */
export interface PeriodBudget {
  /** An agent, a token as the owner of threads, or a thread. */
  kind: 'agent' | 'owner' | 'thread';
  name: string;
  /** life: as long as its thread. */
  period: 'day' | 'month' | 'life';
  begin: string;
  /** When the next period begins, with the whole budget; of a life the year 9999. */
  end: string;
  /** Time zone in which days and months begin. */
  zone: string;
  /** What may be used, without what people added. An absent member is not bounded. */
  budget: { usd?: number; tokens?: number; turns?: number };
  /** Added by people until the end. */
  raised: { usd?: number; tokens?: number; turns?: number };
  used: { usd?: number; tokens?: number; turns?: number };
  left: { usd?: number; tokens?: number; turns?: number };
  /** low: 80 % of a bound are used. spent: a bound is reached, and nothing starts. */
  state: 'open' | 'low' | 'spent';
  /** Id of the ticket that asks whether to raise it, while it is open. */
  question?: string;
  /** The budget in words. */
  text: string;
}

/** What it leaves out is as the next level says: a submit, then the worker, the agent, the server. */
export interface RetryPolicy {
  /** Failures after which a run fails for good. */
  attempts?: number;
  /** Delay of the first retry, such as '10s'. */
  first?: string;
  /** Each further delay is so many times as long: 1 to 10. */
  factor?: number;
  /** Longest delay after a failure. */
  most?: string;
  /** Longest delay in an outage (class unavailable). */
  outage_most?: string;
  /** How long an outage is retried. */
  outage?: string;
}

/** Where alerts go. */
export interface AlertTarget {
  name: string;
  kind: string;
  /** Links in its alerts decide tickets. */
  decide: boolean;
  /** This and the following fields are set for admins only. */
  paused: boolean;
  waiting: number;
  oldest: string | null;
  last_error: string | null;
}

/** Selects events and the targets that get alerts about them. */
export interface AlertRule {
  name: string;
  when: string[];
  to: string[];
  agents?: string[];
  threads?: string[];
  text?: string;
  quiet?: string;
  digest?: string;
  outage?: string;
  /** How long after the alert about a question that is still open people are reminded of it, such as 30m. */
  remind_after?: string;
  zone?: string;
  /** It is in the configuration, and cannot be changed with putRule. */
  fixed?: boolean;
}

/** When a schedule sends its message, and where to: exactly one of cron, every and at. Durations are texts such as 90m. */
export interface ScheduleSpec {
  cron?: string;
  every?: string;
  anchor?: string;
  at?: string;
  zone?: string;
  start?: string;
  end?: string;
  jitter?: string;
  thread?: string;
  agent?: string;
  text: string;
  priority?: number;
  timeout?: string;
  options?: unknown;
  metadata?: Record<string, string>;
  busy?: 'queue' | 'steer' | 'skip';
  overlap?: 'skip' | 'one' | 'all';
  catch_up?: 'one' | 'none' | 'all';
  window?: string;
  pause_after?: number;
}

export interface ScheduleChanged {
  name: string;
  note?: string;
  next_at: string | null;
  paused: { at: string; by: string; note?: string } | null;
  /** Ids of the runs that were sent and have not ended. */
  open: string[];
}

export interface Schedule extends ScheduleChanged {
  owner: string;
  /** Id of its thread, whose log has all that was sent or skipped. */
  log: string;
  spec: ScheduleSpec;
  /** The next ten times, without jitter. */
  next: string[];
  /** mailroom.toml has it, so only the file changes or removes it. */
  from_file: boolean;
  sent: number;
  skipped: number;
  failures: number;
  /** The last ten ends and skips, oldest first. */
  results: { nominal: string; run?: string; status?: string; skipped?: string; count?: number; error?: string }[];
  created_at: string;
}

export class MailroomError extends Error {
  constructor(code: Code, detail: string, more?: { fields?: Field[]; retryAfter?: number; status?: number; cause?: unknown });
  readonly code: Code;
  /** What was wrong, and what to do. */
  readonly detail: string;
  readonly fields: Field[];
  /** Milliseconds for which the server asked to wait before the next request; 0 for none. */
  readonly retryAfter: number;
  /** The HTTP status; 0 if there was no answer. */
  readonly status: number;
  /** Whether trying again later can help. */
  readonly passing: boolean;
  /** Whether the address is wrong, or what is there: the code is incompatible or certificate. */
  readonly misplaced: boolean;
}

export interface Field {
  location: string;
  message: string;
  value?: unknown;
}

export interface Options {
  /** Where the server is; a path before the API's own is kept. */
  url: string | URL;
  token?: string;
  /** For pages of the server itself, in place of a token: the page's half of the browser's session, see signIn. */
  session?: string;
  fetch?: typeof globalThis.fetch;
  /** Streams use it where it exists: by default the global WebSocket. null: they use server-sent events. */
  WebSocket?: typeof globalThis.WebSocket | null;
  /** Milliseconds for one try of a call. Defaults to 30,000. */
  timeout?: number;
  /** How often a call that is safe to repeat is tried while it fails and a later try can succeed. Defaults to 6. */
  tries?: number;
}

export interface Abortable {
  signal?: AbortSignal;
}

export interface ListQuery extends Abortable {
  /** A filter such as "status:failed agent:codex". */
  q?: string;
  /** The next of the previous page. */
  cursor?: string;
  limit?: number;
}

export interface Page<T> {
  items: T[];
  /** The cursor of the next page; null at the end. */
  next: string | null;
  /** Set if the page is short because one request reads a bounded number of rows: it read those created since then. */
  looked_to?: string;
}

export interface Part {
  /** Only agents write reasoning: what a model thought before it answered. */
  type: 'text' | 'data' | 'file' | 'reasoning';
  text?: string;
  data?: unknown;
  uri?: string;
  mime_type?: string;
  name?: string;
}

export interface Submit {
  /** Absent or blank: a new thread. */
  thread?: string;
  text?: string;
  parts?: Part[];
  messages?: { role?: 'user' | 'system'; text?: string; parts?: Part[]; visibility?: 'all' | 'internal' }[];
  agent?: string;
  agent_version?: string;
  mode?: Mode;
  /** A repeat of the same submit under the same key has no further effect. */
  key?: string;
  /** What the agent's key_limit and key_rate count the run under, such as a customer. Default: as the agent's key_from says. */
  concurrency_key?: string;
  priority?: number;
  not_before?: string;
  /** When the run ends, whatever its status: a time, or a duration such as '30m' from the acceptance of the submit. */
  deadline?: string;
  /** Bounds what the run may use, with all that it sends. Once it is spent, a person raises it, or the run ends. */
  budget?: Budget;
  expect_run?: string;
  max_attempts?: number;
  /** How its failures are retried, over the worker, the agent and the server. Its attempts are those of max_attempts. */
  retry?: RetryPolicy;
  /** Lost claims in a row after which the run fails for good; 0: it is never started again after one. */
  max_crashes?: number;
  options?: unknown;
  parent?: string;
  metadata?: Record<string, string>;
  sender?: string;
  decisions?: (Decision & { ticket: string })[];
}

export interface Submitted {
  message: string;
  run: string;
  thread: string;
  seq: number;
  place: number;
  status: RunStatus;
  disposition: 'queued' | 'running' | 'steered' | 'resumed' | 'collected' | 'duplicate';
  superseded: string[];
  stopping: string | null;
}

export interface Decision {
  decision: 'approve' | 'deny' | 'answer';
  answer?: unknown;
  reason?: string;
  /** The digest of the ticket that was shown to the person; approve needs it. */
  digest?: string;
}

export interface Message {
  id: string;
  thread: string;
  seq: number;
  role: 'user' | 'assistant' | 'system';
  sender: string;
  text: string;
  parts: Part[];
  visibility: 'all' | 'internal';
  run: string;
  state: 'accepted' | 'delivered' | 'read' | 'done' | 'superseded' | 'retracted';
  partial: boolean;
  created_at: string;
}

/** What keeps an open run from running. text continues "waits for". */
export interface Blocker {
  cause: 'decision' | 'event' | 'child' | 'timer' | 'run' | 'time' | 'join' | 'retry' | 'pause' | 'budget' | 'worker' | 'server' | 'rate' | 'limit' | 'slot' | string;
  text: string;
  until?: string;
  /** With the causes run and child: the run that has to end first, if the token sees it. */
  run?: string;
  tickets?: string[];
}

/** How many runs ended in a period, by how they ended, and how many are open now. budget is a part of those that ended. */
export interface ReportRuns {
  completed: number; failed: number; cancelled: number; budget: number;
  waiting: number; running: number; queued: number;
}

/** What runs used; computed_usd is the part of cost_usd that the server computed from prices of models. */
export interface ReportSpent { cost_usd: number; computed_usd: number; input_tokens: number; output_tokens: number }

/** A run in a report. text is one line: the begin of its reply or error. */
export interface ReportRun {
  id: string;
  thread: string;
  status: RunStatus;
  reason: string;
  finished_at: string | null;
  text: string;
  cost_usd: number;
}

/** What one agent did in a period. more counts the runs that are left out of items. */
export interface ReportAgent {
  agent: string;
  runs: ReportRuns;
  spent: ReportSpent;
  open_spent: ReportSpent;
  paused: { by: string; at: string; reason: string; probe?: string } | null;
  items: ReportRun[];
  more: number;
}

/** A question in a report. */
export interface ReportQuestion {
  ticket: string;
  run: string;
  thread: string;
  agent: string;
  kind: 'approval' | 'input';
  state: 'open' | 'decided' | 'expired' | 'void';
  text: string;
  opened_at: string | null;
  expires_at: string | null;
  decision: string;
  reason: string;
  decided_by: string;
  decided_at: string | null;
}

/** The branch of a worktree of a thread, and what the platform of its pull request said at state_at. */
export interface ReportBranch {
  thread: string;
  run: string;
  agent: string;
  at: string;
  branch: string;
  head: string;
  commits: number;
  pushed: string;
  unpushed: string;
  pull_request: string;
  number: number;
  unopened: string;
  again: boolean;
  state: '' | 'open' | 'merged' | 'closed';
  state_at: string | null;
  trouble: string;
  unread: string;
  left: string;
}

/** What became of the times of a schedule. */
export interface ReportSchedule {
  name: string;
  owner: string;
  sent: number;
  failed: number;
  skipped: number;
  why: string;
  paused: { at: string; by: string; note?: string } | null;
  more: boolean;
}

/** What agents did in a period: the runs that ended in it, and what is open now. more_… counts what is left out. */
export interface Report {
  since: string;
  until: string;
  /** Set if there were too many runs: those that were submitted before are left out. */
  looked_to: string | null;
  runs: ReportRuns;
  spent: ReportSpent;
  open_spent: ReportSpent;
  agents: ReportAgent[];
  more_agents: number;
  questions: { open: number; decided: number; items: ReportQuestion[]; more: number };
  branches: ReportBranch[];
  more_branches: number;
  more_threads: number;
  schedules: ReportSchedule[];
  more_schedules: number;
}

/** A cause for which queued runs wait: some wait for it themselves, others come after these in their threads. */
export interface WaitGroup {
  cause: Blocker['cause'];
  /** The agent of the runs that wait for it themselves. */
  agent: string;
  text: string;
  /** Queued runs that wait for it, themselves or not. */
  runs: number;
  /** Runs that wait for it themselves, queued or not. */
  behind: number;
  /** One of the runs that wait for it themselves. */
  run: string;
  /** When the oldest of the runs was created. */
  since: string;
}

/** One action of an operator in the audit log. */
export interface AuditedAction {
  seq: number;
  at: string;
  /** Such as agent.pause. */
  action: string;
  actor: string;
  actor_kind: 'operator' | 'token' | 'session' | 'limited' | 'link' | 'chat' | '' | string;
  token: string;
  from: string;
  object_kind: string;
  object: string;
  thread: string;
  detail: Record<string, string>;
}

export interface Run {
  id: string;
  thread: string;
  agent: string;
  agent_version: string | null;
  status: RunStatus;
  stopping: boolean;
  attempt: number;
  failures: number;
  crashes: number;
  max_attempts: number;
  /** How its last attempt is retried, without what is the default. */
  retry?: RetryPolicy;
  max_crashes: number | null;
  available_at: string;
  /** What its agent's key_limit and key_rate count it under. Absent: nothing. */
  concurrency_key?: string;
  /** When the run ends, whatever its status, with the reason deadline. */
  deadline: string | null;
  /** Absent: nothing bounds what it uses. */
  budget?: RunBudget;
  messages: string[];
  reply: string | null;
  error: { class: string; message: string } | null;
  /** Why its last attempt failed, while it waits for the next one at available_at. */
  last_error: { class: string; message: string } | null;
  /** Equal for failed runs whose errors differ only in ids, numbers, paths, addresses and quoted text. */
  error_group: string | null;
  reason: string | null;
  wait: { tickets: string[]; until: 'all' | 'any' } | null;
  /** What its silent agent waits for, in the agent's words, while it is running. */
  waits_on?: { text: string; since: string };
  /** Why it does not run, while it is queued or waiting: what keeps it, then what keeps the run before it, and so on. The last one is the cause. */
  waits_for?: Blocker[];
  steps: number;
  progress: number;
  created_at: string;
  started_at: string | null;
  finished_at: string | null;
  /** In a list: the beginning of its first message, as one line without the marks of Markdown. */
  title?: string;
  [more: string]: unknown;
}

export interface Thread {
  id: string;
  agent: string;
  owner: string;
  status: 'idle' | 'queued' | 'running' | 'waiting';
  last_seq: number;
  oldest_seq: number;
  active_run: string | null;
  waiting_run: string | null;
  latest_run: string | null;
  queued: number;
  parent: string | null;
  metadata: Record<string, unknown>;
  created_at: string;
  updated_at: string;
  /** In a list: the title of its latest run. */
  title?: string;
  [more: string]: unknown;
}

export interface Ticket {
  id: string;
  thread: string;
  run: string;
  name: string;
  kind: 'approval' | 'input' | 'children' | 'timer' | 'event';
  prompt: string | null;
  action: string | null;
  arguments: unknown;
  digest: string;
  state: 'open' | 'decided' | 'expired' | 'void';
  opened_at: string | null;
  expires_at: string | null;
  answers?: boolean;
  decision: 'approve' | 'deny' | 'answer' | '' | null;
  answer: unknown;
  reason: string | null;
  decided_by: string | null;
  decided_at: string | null;
}

export interface Agent {
  name: string;
  kind: string | null;
  version: string | null;
  program: string | null;
  available: boolean;
  reason: string | null;
  workers: number;
  running: number;
  queued: number;
  waiting: number;
  /** probe is set if the server paused it: one run starts then, and its success ends the pause. */
  paused: { by: string; at: string; reason: string; probe?: string } | null;
  /** Workers that cannot work for it, while others do. */
  paused_on?: { worker: string; host: string; at: string; reason: string; probe?: string }[];
  /** How the server retries its runs. null: the server does not know the agent; absent: the server is older. */
  retry?: { attempts: number; first: string; factor?: number; most: string; outage_most?: string; outage?: string; max_crashes: number; permanent_exits: number[]; unavailable_exits: number[] } | null;
}

export interface Failure {
  /** The error_group of the runs. */
  group: string;
  message: string;
  class: string;
  agents: string[];
  runs: number;
  first_at: string;
  last_at: string;
  /** The run whose error has that message. */
  run: string;
}

export interface Channel {
  name: string;
  kind: string;
  state: 'starting' | 'connected' | 'silent' | 'queued' | 'parked' | 'gave_up' | 'failed' | 'standby';
  since: string | null;
  reason: string | null;
  attempts: number;
  next_try: string | null;
  last_success: string | null;
  last_error: string | null;
  [more: string]: unknown;
}

export interface Worker {
  id: string;
  host: string;
  pid: number;
  agents: string[];
  running: number;
  lease_until: string;
  version: string;
  [more: string]: unknown;
}

/** A browser that gets alerts. */
export interface PushSubscribed {
  /** The first 32 hexadecimal digits of the SHA-256 of its endpoint. */
  id: string;
  client: string | null;
  by: string;
  created_at: string;
  gone: boolean;
}

export interface Token {
  name: string;
  kind: 'token' | 'limited' | 'session' | 'link';
  for: string | null;
  /** Browser and system of a session, as the browser says. */
  client: string | null;
  scopes: string[];
  namespace: string | null;
  /** Labels the runs that it creates, in origin.via. */
  via: string | null;
  /** What the runs in its threads may use: in a day, in a month, and each run. */
  budget?: Record<string, string>;
  created_at: string;
  used_at: string | null;
  revoked_at: string | null;
  expires_at: string | null;
  [more: string]: unknown;
}

export interface Session {
  /** Name of the token that it acts for. */
  token: string;
  kind: 'token' | 'limited' | 'session';
  scopes: string[];
  namespace: string | null;
  expires_at: string | null;
}

/** A link that signs in: for which token, with which rights, and who made it. */
export interface ShownLink {
  token: string;
  scopes: string[];
  made_by: 'token' | 'session';
  /** Browser of the session that made it. */
  client?: string | null;
  expires_at: string;
}

export interface Stats {
  runs: Record<RunStatus, number>;
  threads: number;
  oldest_due_ms: number;
  started_at: string;
}

export interface FoundMessage {
  thread: string;
  seq: number;
  id: string;
  role: 'user' | 'assistant' | 'system';
  sender: string;
  run: string;
  state: string;
  created_at: string;
  excerpt: string;
}

export interface Issue {
  id: string;
  title: string;
  status: string;
  type: string;
  priority: number;
  assignee: string;
  labels: string[];
  blocked_by: string[];
  updated_at: string;
  thread: string;
}

export interface Series {
  step: 'minute' | 'hour' | 'day';
  from: string;
  to: string;
  items: SeriesPoint[];
  start_delay_bounds_ms: number[];
}

export interface Sums extends Omit<Series, 'items'> {
  label: string;
  items: { name: string; last_at: string | null; sums: SeriesPoint }[];
  all: SeriesPoint;
  others: SeriesPoint;
}

export interface SeriesPoint {
  at: string;
  completed: number;
  failed: number;
  cancelled: number;
  started: number;
  start_delay_ms: number;
  ran_ms: number;
  start_delays: number[];
  input_tokens: number;
  output_tokens: number;
  cost_usd: number;
}

export interface Entry {
  thread: string;
  seq: number;
  kind: string;
  run: string;
  attempt: number;
  at: string;
  body: any;
}

export interface Delta {
  run: string;
  attempt: number;
  message: string;
  /** Bytes (UTF-8) of the message, of its thinking, or of the arguments of this call, before this text. */
  offset: number;
  /**
   * thinking and tool (the arguments of a tool call, as a model writes them) are live only and no part of the message.
   * waits is what the silent agent waits for, until anything else of its run comes. If several servers share a store,
   * only readers at the server of the run get these three.
   */
  channel: 'text' | 'thinking' | 'tool' | 'waits';
  /** With tool: the call, as in the tool.started that follows, and the name of the tool. */
  call?: string;
  name?: string;
  text: string;
}

export interface Gap {
  after: number;
  oldest: number;
  last: number;
}

/** A stream that starts after a cursor continues with the next event. */
export type Followed =
  | { kind: 'entry'; cursor: string; entry: Entry }
  | { kind: 'delta'; cursor: string; delta: Delta }
  | { kind: 'gap'; cursor: string; gap: Gap }
  | { kind: 'settled'; cursor: string; run: string; status: Finished };

export interface FollowQuery extends Abortable {
  thread?: string;
  run?: string;
  /** A seq, or the cursor of an event. Defaults to the beginning of the log. */
  after?: string | number;
  until?: 'settled' | 'waiting';
  onState?: (state: 'connecting' | 'live' | 'waiting', error?: MailroomError) => void;
}

/** A delta has its thread, and no cursor. */
export type FollowedAll =
  | { kind: 'entry'; cursor: string; entry: Entry }
  | { kind: 'delta'; cursor: string; delta: Delta & { thread: string } }
  | { kind: 'gap'; cursor: string; gap: unknown };

export interface Many extends Abortable {
  q: string;
  cursor?: string;
  dryRun?: boolean;
}

/** Makes an idempotency key for a submit. */
export function newKey(): string;

export class Mailroom {
  constructor(options: Options);
  readonly url: URL;
  send(message: string | Submit, options?: Submit & Abortable): Promise<Submitted>;
  follow(query: FollowQuery): AsyncGenerator<Followed, void, undefined>;
  followAll(query?: Abortable & { after?: string; onState?: FollowQuery['onState'] }): AsyncGenerator<FollowedAll, void, undefined>;
  nudge(): void;
  cancel(run: string, options?: Abortable & { children?: boolean }): Promise<Run>;
  interrupt(thread: string, options?: Abortable): Promise<{ superseded: string[]; stopping: string | null }>;
  retry(run: string, options?: Abortable & { fresh?: boolean }): Promise<Run>;
  decide(ticket: string, decision: Decision & Abortable): Promise<Ticket>;
  run(id: string, options?: Abortable): Promise<Run>;
  thread(id: string, options?: Abortable): Promise<Thread>;
  patchThread(id: string, patch: { agent?: string; metadata?: Record<string, unknown>; dropSession?: boolean; budget?: { day?: string; month?: string; life?: string } } & Abortable): Promise<Thread>;
  threads(query?: ListQuery): Promise<Page<Thread>>;
  entries(thread: string, query?: Abortable & { after?: number | string; before?: number | string; limit?: number; run?: string; kind?: string | string[] }): Promise<Page<Entry>>;
  messages(thread: string, query?: Abortable & { before?: string; limit?: number; visibility?: 'all' | 'internal'; all?: boolean }): Promise<Page<Message>>;
  message(thread: string, id: string, options?: Abortable): Promise<Message>;
  ticket(id: string, options?: Abortable): Promise<Ticket>;
  tickets(query?: ListQuery): Promise<Page<Ticket>>;
  agents(options?: Abortable): Promise<Agent[]>;
  runs(query?: ListQuery): Promise<Page<Run>>;
  countRuns(query?: Abortable & { q?: string; cursor?: string }): Promise<{ count: number; next: string | null; looked_to?: string }>;
  failures(query?: Abortable & { q?: string; limit?: number }): Promise<{ items: Failure[]; looked_to?: string }>;
  waits(query?: Abortable & { q?: string }): Promise<{ items: WaitGroup[]; runs: number; looked_to?: string }>;
  report(query?: Abortable & { since?: string; until?: string; agent?: string }): Promise<Report>;
  audit(query?: ListQuery): Promise<Page<AuditedAction>>;
  search(query: Abortable & { q: string; thread?: string; cursor?: string; limit?: number }): Promise<Page<FoundMessage> & { indexed_to: string | null; complete: boolean }>;
  retryMany(query: Many): Promise<{ matched: number; retried: number; next: string | null }>;
  cancelMany(query: Many): Promise<{ matched: number; cancelled: number; next: string | null }>;
  pauseAgent(name: string, options?: Abortable & { reason?: string }): Promise<{ by: string; at: string; reason: string }>;
  resumeAgent(name: string, options?: Abortable): Promise<void>;
  alerts(options?: Abortable): Promise<{ targets: AlertTarget[]; rules: AlertRule[] }>;
  putRule(rule: Partial<AlertRule> & Pick<AlertRule, 'name' | 'when' | 'to'>, options?: Abortable): Promise<AlertRule>;
  deleteRule(name: string, options?: Abortable): Promise<void>;
  budgets(options?: Abortable): Promise<Page<PeriodBudget>>;
  raiseBudget(raise: Abortable & Pick<PeriodBudget, 'kind' | 'name' | 'period'> & { by: string }): Promise<PeriodBudget>;
  schedules(query?: Abortable & { owner?: string; cursor?: string; limit?: number }): Promise<Page<Schedule>>;
  schedule(name: string, options?: Abortable & { owner?: string }): Promise<Schedule>;
  putSchedule(name: string, spec: ScheduleSpec, options?: Abortable): Promise<ScheduleChanged>;
  pauseSchedule(name: string, options?: Abortable & { owner?: string; note?: string }): Promise<ScheduleChanged>;
  resumeSchedule(name: string, options?: Abortable & { owner?: string }): Promise<ScheduleChanged>;
  runSchedule(name: string, options?: Abortable & { owner?: string; key?: string }): Promise<ScheduleChanged>;
  deleteSchedule(name: string, options?: Abortable & { owner?: string }): Promise<void>;
  testAlert(target: string, options?: Abortable): Promise<{ run: string }>;
  stats(options?: Abortable): Promise<Stats>;
  series(query?: Abortable & { step?: 'minute' | 'hour' | 'day'; from?: string; to?: string; agent?: string }): Promise<Series>;
  sums(query?: Abortable & { by?: 'agent' | 'label'; step?: 'minute' | 'hour' | 'day'; from?: string; to?: string }): Promise<Sums>;
  issues(options?: Abortable): Promise<{ columns: { name: string; count: number; items: Issue[] }[] }>;
  channels(options?: Abortable): Promise<Channel[]>;
  resumeChannel(name: string, options?: Abortable): Promise<Channel>;
  workers(options?: Abortable): Promise<Worker[]>;
  push(options?: Abortable): Promise<{ public_key: string; target: string; subscriptions: PushSubscribed[] }>;
  subscribePush(subscription: { endpoint: string; keys: { p256dh: string; auth: string } }, options?: Abortable): Promise<{ id: string }>;
  unsubscribePush(id: string, options?: Abortable): Promise<void>;
  tokens(query?: Abortable & { cursor?: string }): Promise<Page<Token>>;
  createToken(token: Abortable & { name: string; scopes: string[]; namespace?: string; expires_at?: string }): Promise<Token & { token: string }>;
  revokeToken(name: string, options?: Abortable): Promise<void>;
  endToken(name: string, options?: Abortable & { cancel?: boolean }): Promise<{ cancelled: number; open_runs: number }>;
  session(options?: Abortable): Promise<Session>;
  showLink(secret: string, options?: Abortable): Promise<ShownLink>;
  signIn(secret: string, options?: Abortable): Promise<Session & { half: string }>;
  signOut(options?: Abortable): Promise<void>;
}

interface ItemOf<Kind extends string> {
  kind: Kind;
  /** Unique in the transcript, and never changes. */
  key: string;
}

export type Item =
  | ItemOf<'message'> & {
    id: string; seq: number; at: string | null; attempt: number; role: Message['role']; sender: string; text: string; parts: Part[]; run: string;
    state: 'accepted' | 'read' | 'superseded' | 'unread'; partial: boolean; again: boolean; live: boolean; aside: boolean;
  }
  | ItemOf<'note'> & {
    run: string; about: 'step' | 'tool' | 'effect' | 'send' | 'timer'; name: string; detail?: unknown;
    /** Of a tool, an effect or a message to another thread. A tool is live while its arguments are written. */
    progress?: 'live' | 'open' | 'done' | 'failed' | 'expired' | 'void';
    result?: string; output?: unknown; status?: RunStatus;
  }
  | ItemOf<'ticket'> & { run: string; ticket: Ticket }
  | ItemOf<'retry'> & { run: string; at: string; attempt: number; reason: string; error: Run['error']; until: string }
  | ItemOf<'end'> & { run: string; at: string; status: 'failed' | 'cancelled'; reason: string | null; error: Run['error']; forced: boolean }
  | ItemOf<'gap'> & { gap: Gap };

export interface FoldedRun {
  id: string;
  agent: string | null;
  /** null: no event has told it yet. */
  status: RunStatus | null;
  attempt: number;
  started: boolean;
  stopping: boolean;
  /** When it is tried again, or stops waiting. */
  until: string | null;
}

export class Transcript {
  readonly items: Item[];
  readonly runs: Map<string, FoldedRun>;
  readonly messages: Map<string, Extract<Item, { kind: 'message' }>>;
  readonly tickets: Map<string, Extract<Item, { kind: 'ticket' }>>;
  readonly current: FoldedRun | null;
  /** What a silent agent waits for, in its words; null once anything else of its run comes. */
  readonly waitsOn: { run: string; attempt: number; text: string; since: string } | null;
  /** What the agent of the current run thinks; live only, null after its message or the end of the attempt. */
  readonly thinking: { run: string; attempt: number; message: string; text: string; bytes: number } | null;
  readonly queued: number;
  readonly firstSeq: number;
  readonly lastSeq: number;
  readonly missing: Set<number>;
  take(followed: Followed | { kind: 'entry'; entry: Entry }): void;
  prepend(older: Entry[]): void;
  know(known: { runs?: Run[]; tickets?: Ticket[]; entries?: Entry[] }): void;
  changed(): Set<Item>;
}

/** Renders untrusted text: characters that are invisible or deceive become marks such as "⟦U+202E⟧". */
export function displayText(text: unknown): string;
/** The same on one line. */
export function displayLine(text: unknown): string;
/** The first n characters, and how many follow. */
export function displayCut(text: unknown, n: number): string;
