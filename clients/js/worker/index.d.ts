// Types of mailroom/worker: an agent in JavaScript, served from a process of its own.
//
// Wire shapes (sends, usage, parts, tickets) have the names of the HTTP API; /openapi.json describes them.

import type { Budget, BudgetLeft, Message, MailroomError, Part, RetryPolicy, Run, Ticket } from '../mailroom.js';

/**
 * Serves one agent, or several by name. It returns at once and works until it is stopped.
 *
 * ```js
 * const worker = work('greeter', async (s) => `Hello, you said: ${s.text}`);
 * await worker.done;
 * ```
 */
export function work(agent: string, handler: Handler, options?: WorkOptions): Worker;
export function work(agents: Record<string, Handler>, options?: WorkOptions): Worker;

/**
 * Handles one attempt of one run. A text that it returns follows what it wrote; returning ends the run as completed. An
 * error that it throws fails the attempt, and the server retries the run; see Failure. A MailroomError with the code
 * invalid, too_large or conflict fails the run for good. A later attempt calls it
 * again from the top, so what must happen once belongs in an effect.
 *
 * The worker renews its lease from a timer, every third of it (5 s of 15 s). A handler that blocks the event loop for
 * the length of a lease loses the claims of the whole process: give such work to a worker thread or a child process.
 */
export type Handler = (session: Session) => string | void | Promise<string | void>;

export interface WorkOptions {
  /** Where the server is. Defaults to MAILROOM_URL, then http://127.0.0.1:8420. */
  url?: string | URL;
  /** A token with the scope work. Defaults to MAILROOM_TOKEN. */
  token?: string;
  /** How many runs are handled at the same time, of all agents together. Defaults to 4. */
  slots?: number;
  /** Aborting it is a call of stop. */
  signal?: AbortSignal;
  /** Signals of the process that call stop, such as ['SIGTERM', 'SIGINT']. Defaults to none. */
  stopOn?: string[];
  /**
   * Milliseconds in which a handler must return after its signal was aborted. After that the attempt ends without it;
   * its slot stays taken until it returns. Defaults to 10,000.
   */
  grace?: number;
  /** How failures of runs are retried, such as { attempts: 3, first: '2s', factor: 2 }. Defaults to the server's configuration. */
  retry?: RetryPolicy;
  /** Defaults to lines on stderr, without debug. */
  log?: Log;
  fetch?: typeof globalThis.fetch;
}

/** Receives a stable phrase and its attributes, such as the run and the thread. console fits. */
export interface Log {
  debug(message: string, attributes: Record<string, unknown>): void;
  info(message: string, attributes: Record<string, unknown>): void;
  warn(message: string, attributes: Record<string, unknown>): void;
  error(message: string, attributes: Record<string, unknown>): void;
}

export interface Worker {
  /**
   * Drains: it claims nothing more and waits for the running handlers. After `within` milliseconds, which defaults to
   * no limit, it aborts their signals with Stopped and gives their runs back to the server.
   */
  stop(options?: { within?: number }): Promise<void>;
  /** Resolves once the server knows the agents, so that runs can be sent to them. */
  readonly ready: Promise<void>;
  /** Resolves once the worker has stopped. Rejects if the server refuses it, for example for its token. */
  readonly done: Promise<void>;
}

/**
 * The access of a handler to its run. Every write carries the claim of the attempt, so nothing is written after the
 * claim was lost. Calls may run in parallel, also those that wait for a person: their writes go out one after the
 * other. A call that is not awaited is still done before the run ends.
 *
 * Every call throws Stopped after a stop, LeaseLost once the claim is lost, and Parked once the run has to wait. The
 * value of an effect that has begun is still recorded. Invalid arguments throw a MailroomError.
 */
export interface Session {
  /** The messages that started the run. */
  readonly input: Message[];
  /** The text of the input, one message a line. */
  readonly text: string;
  /** The run as it was claimed. */
  readonly run: Run;
  /** The agent's state in the thread, null at first: the last one that a step wrote, in this run or an earlier one. */
  readonly state: any;
  /** The run's last checkpoint, null at first. */
  readonly checkpoint: any;
  /** What was left of the run's budget at the last step; null: nothing bounds the run. */
  readonly budgetLeft: BudgetLeft | null;
  /**
   * Aborts when the attempt has to end: give it to everything that takes long. Its reason is Stopped, LeaseLost or
   * Failure.
   */
  readonly signal: AbortSignal;

  /**
   * Adds text to the message being written. Readers see it within 50 ms, and it is stored about once a second. The next
   * step makes it a message of the log, the end of the run makes it the reply. At most 1 MiB; what
   * follows is cut.
   */
  write(text: string): Promise<void>;
  /** Shows what the agent thinks to those who follow the run now. To store it, give step a part of type reasoning. */
  reasoning(text: string): Promise<void>;
  /** Shows the arguments of a tool call while a model writes them. tool.started stores them when they are complete. */
  toolArguments(call: string, name: string, text: string): Promise<void>;
  /**
   * Says what the handler waits for while it writes nothing, such as 'cargo test', to those who look at the run: with
   * the next renewal of the lease, and until the next text or step.
   */
  waitsOn(text: string): void;
  readonly tool: {
    /** Records that a tool call begins. The text written before it becomes an internal message. */
    started(call: string, name: string, args?: unknown): Promise<void>;
    /** Records how it ended. ok defaults to true. At most 256 KiB with the output. */
    finished(call: string, result?: { ok?: boolean; summary?: string; output?: unknown }): Promise<void>;
  };

  /**
   * Commits one durable step: all of it, or nothing. The text written before it becomes a message. With afterStop it
   * also works after a stop, within the grace, so that a handler can save what it has.
   */
  step(step?: Step, options?: { afterStop?: boolean }): Promise<void>;

  /**
   * Calls fn once and records its value: later attempts return the value without a call. An error is not recorded. fn
   * is given a key, the same in every attempt, for an outside service that recognizes repeats.
   *
   * If the process dies within fn, it is unknown whether it happened. Then a ticket asks a person (approve: call it
   * again; answer: this was its value; deny: fail), unless the effect is idempotent or has a reconcile function.
   *
   * The value is what JSON keeps of it, at most 1 MiB. If JSON cannot keep it, the effect is recorded as called without
   * its value, and the run fails for good: nothing calls it twice. A call within fn needs another name.
   */
  effect<T>(name: string, fn: (key: string) => T | Promise<T>, options?: EffectOptions<T>): Promise<T>;
  /**
   * Records the value of a call that may happen more than once, such as the call of a model: one write instead of two.
   * A call whose attempt ended before the record is made again. The value is at most 1 MiB.
   */
  memo<T>(name: string, fn: () => T | Promise<T>, options?: { input?: unknown }): Promise<T>;

  /** Asks whether something may be done. False if it is denied or expires; ticket(name) says who, when and why. */
  approval(name: string, question?: Question): Promise<boolean>;
  /** Asks for an input and returns the answer; null if the ticket expires. */
  ask(name: string, question?: Question): Promise<any>;
  /** Waits until a time, or for a duration from the first call on: milliseconds, or text such as '10m'. */
  sleep(name: string, until: number | string | Date): Promise<void>;
  /**
   * Waits until a ticket of kind event is decided, and returns the answer; null if it expires. With holds, messages to
   * the thread stay in the queue while it is open.
   */
  event(name: string, question?: Question & { holds?: boolean }): Promise<any>;
  /** Sends a message to another thread and goes on. The same name sends once, in all attempts. */
  send(name: string, message: Send): Promise<void>;
  /** Sends a message, waits until the run that it starts has ended, and returns how. */
  call(name: string, message: Omit<Send, 'answer'>): Promise<ChildEnd>;
  /** The ticket of that name, undefined if it is not open yet. */
  ticket(name: string): Ticket | undefined;

  /** The messages steered into the run since the last call. */
  steered(): Promise<Message[]>;
  /** The last messages before the input, at most limit (100). */
  transcript(limit?: number): Promise<Message[]>;
  readonly blobs: Blobs;
  /** The last entries of the thread's log, oldest first: the messages of all, and what runs of this agent wrote. */
  log(query?: LogQuery): Promise<Entry[]>;
}

export interface EffectOptions<T> {
  /** Arguments, plain data. The same name with other arguments is a conflict. The order of keys does not count. */
  input?: unknown;
  /** Calling again with the same key is harmless. */
  idempotent?: boolean;
  /** Finds out whether an unknown effect happened: its value if it did, undefined if it did not. */
  reconcile?: (key: string) => { value: T } | undefined | Promise<{ value: T } | undefined>;
}

export interface Question {
  prompt?: string;
  /** What is to be done, such as the name of a tool. */
  action?: string;
  /** Its arguments, plain data of at most 64 KiB. The person who decides sees and confirms exactly these. */
  arguments?: unknown;
  /** When the ticket expires: a time, or a duration from the first call on, in milliseconds or text such as '10m'. */
  expires?: number | string | Date;
}

/**
 * What the agent keeps in the thread beside its state: bytes under names, at most 16 MiB each and 64 MiB in all. Later
 * attempts and later runs of the agent in the thread find them. put and delete commit a step of their own, and the
 * message being written goes on; a step with blobs writes them together with a checkpoint.
 */
export interface Blobs {
  /** Writes a blob, and replaces one of the same name. */
  put(name: string, content: Uint8Array | ArrayBuffer): Promise<void>;
  /** The content of a blob; null if there is none of this name. */
  get(name: string): Promise<Uint8Array | null>;
  /** Deletes a blob, if there is one. */
  delete(name: string): Promise<void>;
  /** The next blobs by name, at most 1,000: names that begin with prefix and come after the name after. */
  list(query?: { prefix?: string; after?: string }): Promise<Blob[]>;
}

export interface Blob {
  name: string;
  /** Length of the content, in bytes. */
  size: number;
  /** SHA-256 of the content, in hexadecimal. */
  digest: string;
  written_at: string;
}

export interface Step {
  /** Name of the step entry. Without a name no such entry is written. */
  name?: string;
  /** Replaces the agent's state in the thread; at most 16 KiB. */
  state?: unknown;
  /** Replaces the run's checkpoint; at most 256 KiB. */
  checkpoint?: unknown;
  /** Added to the run's usage. */
  usage?: Partial<Usage>;
  /** Entries of kinds that begin with "x."; at most 256 KiB each. */
  entries?: { kind: string; body: Record<string, unknown> }[];
  sends?: (Send & { name: string })[];
  /** Parts of types reasoning, data and file of the message being written. */
  parts?: MessagePart[];
  /** Blobs to write, by name; null deletes one. */
  blobs?: Record<string, Uint8Array | ArrayBuffer | null>;
  /** Between 0 and 1. */
  progress?: number;
  /** The message being written is internal: no reply, and not delivered to a chat. */
  aside?: boolean;
  /**
   * Asks for more time: from this step on the attempt may take that long, in milliseconds or text such as '10m', within
   * the bound of the server. It never takes time away.
   */
  extend?: number | string;
}

export type MessagePart = Omit<Part, 'type'> & { type: 'reasoning' | 'data' | 'file' };

export interface Usage {
  input_tokens: number;
  output_tokens: number;
  cost_usd: number;
  cache_read_tokens: number;
  cache_write_tokens: number;
  reasoning_tokens: number;
  /** The model that was called last. */
  model: string;
}

export interface Send {
  agent?: string;
  /** Absent: a new thread, the same one for the same name. */
  thread?: string;
  text?: string;
  parts?: Part[];
  /** wait: the end of the run decides a ticket of this name; wake: it sends a message back. */
  answer?: 'wait' | 'wake';
  mode?: 'queue' | 'steer' | 'interrupt' | 'latest' | 'collect' | 'reject';
  priority?: number;
  /** A time, or a duration from the first send on, such as '10m'. */
  not_before?: string;
  deadline?: string;
  /** The part of the run's budget that the new run gets; what that leaves comes back with its end. */
  budget?: Budget;
  options?: unknown;
  metadata?: Record<string, string>;
}

export interface ChildEnd {
  status: 'completed' | 'failed' | 'cancelled';
  reply?: string;
  [more: string]: unknown;
}

export interface LogQuery {
  /** Only these kinds, such as ['message', 'tool.finished']. */
  kinds?: string[];
  /** Only entries with a greater seq. */
  after?: number;
  /** Only entries with a smaller seq. */
  before?: number;
  /** 100 by default. */
  limit?: number;
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

/**
 * The run has to wait. The handler ends and is called again after the wait. Nothing else may catch it; if it does, the
 * run waits all the same.
 */
export class Parked extends Error {}
/** The run was asked to stop, or the worker was. What was written is kept. */
export class Stopped extends Error {}
/** The claim was taken away: another attempt may already run, so nothing more is written. */
export class LeaseLost extends Error {}
/** Thrown by the function of an effect that does not know whether the effect happened. */
export class Unknown extends Error {}
/** An error of the agent that says how the run goes on. */
export class Failure extends Error {
  constructor(message: string, options?: {
    /** transient (the default) is retried and counted; unavailable is retried for a day; permanent is not retried. */
    class?: 'transient' | 'unavailable' | 'permanent';
    /** Milliseconds before the next attempt, at least. */
    retryAfter?: number;
    /** The fault is the agent's own, such as an expired login: the server pauses the agent and keeps its runs. */
    agent?: boolean;
    cause?: unknown;
  });
  readonly class: 'transient' | 'unavailable' | 'permanent';
  readonly retryAfter: number;
  readonly agent: boolean;
}

export type { MailroomError };
