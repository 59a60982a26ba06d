// Words for what the log of a run has: the kinds of its entries, spans, and their states.

const KINDS = {
  message: 'Message', 'message.read': 'Message read', 'message.edited': 'Message edited', 'message.retracted': 'Message retracted',
  'run.queued': 'Queued', 'run.started': 'Attempt started', 'run.resumed': 'Attempt started after a wait', 'run.rescheduled': 'Attempt ended, another follows',
  'run.stop_requested': 'Asked to stop', 'run.completed': 'Completed', 'run.failed': 'Failed', 'run.cancelled': 'Cancelled', 'run.retried': 'Retried by hand',
  'run.waiting': 'Waits', step: 'Step', 'tool.started': 'Tool started', 'tool.finished': 'Tool finished', send: 'Sent to another thread',
  'ticket.opened': 'Question asked', 'ticket.decided': 'Question decided', 'ticket.expired': 'Question expired',
  'budget.low': 'Budget low', 'budget.spent': 'Budget spent', 'budget.raised': 'Budget raised',
  'effect.intended': 'Effect begun', 'effect.settled': 'Effect recorded', 'effect.unknown': 'Effect unknown',
};

/** The words for a kind of entry. Kinds of agents and of newer servers stay as they are. */
export const kindWords = (kind) => (Object.hasOwn(KINDS, kind) ? KINDS[kind] : String(kind));

const SPANS = {
  queue: 'Queue', attempt: 'Attempt', pause: 'Pause', wait: 'Wait', step: 'Step', tool: 'Tool', effect: 'Effect', memo: 'Memo', message: 'Message',
  question: 'Question', child: 'Run', note: 'Note', more: 'More',
};

/** The word for a kind of span. */
export const spanWord = (kind) => SPANS[kind];

const STATES = {
  done: 'done', failed: 'failed', running: 'running', waiting: 'waits', queued: 'queued', lost: 'lost its worker', cancelled: 'cancelled',
  unknown: 'outcome unknown',
};

/** The words for the state of a span. */
export const stateWords = (state) => STATES[state];

const ENDS = {
  log: '', now: 'goes on', next: 'the log has no end of it: drawn to the begin of the next one', attempt: 'the log has no end of it: drawn to the end of its attempt',
  run: 'the log has no end of it: drawn to the end of the run', unloaded: 'its end is not loaded',
};

/** The words for how the end of a span is known, '' if the log has it. */
export const endWords = (end) => ENDS[end];
