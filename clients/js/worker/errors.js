// The errors that end a handler: those that its calls throw, and those that it throws itself. Each has the name of its
// class.

import { MailroomError } from '../errors.js';

class Ending extends Error {
  constructor(message, options) {
    super(message, options);
    this.name = new.target.name;
  }
}

export class Parked extends Ending {
  constructor(message = 'the run waits for its tickets; let this error pass') { super(message); }
}

export class Stopped extends Ending {}

export class LeaseLost extends Ending {}

export class Unknown extends Ending {
  constructor(message = 'it is not known whether the effect happened', options) { super(message, options); }
}

export class Failure extends Ending {
  constructor(message, { class: kind = 'transient', retryAfter = 0, agent = false, cause } = {}) {
    super(message, cause === undefined ? undefined : { cause });
    this.class = kind;
    this.retryAfter = retryAfter;
    this.agent = agent;
  }
}

/** The errors of invalid arguments, which are refused before a request is sent. */
export function invalid(detail, cause) { return new MailroomError('invalid', detail, { cause }); }

/** Whether the server refuses a request, and would again. Other refusals may pass, also unserved: a worker may start. */
export function isFinal({ code }) { return code === 'invalid' || code === 'too_large' || code === 'conflict'; }

export function conflict(detail) { return new MailroomError('conflict', detail); }

/** The message with which an attempt fails, for any value that its handler threw. */
export function messageOf(error) {
  if (error instanceof Error) return error.message || error.name;
  try {
    return `the handler threw ${typeof error === 'string' ? error : JSON.stringify(error)}`;
  } catch {
    return 'the handler threw a value that is no error';
  }
}
