// Types of clients/js/pause.js, as far as the pages use it.

export class Pauses {
  constructor(first?: number, longest?: number);
  reset(): void;
  next(retryAfter?: number): number;
}

export class Alarm {
  ring(): void;
  sleep(milliseconds: number, signal?: AbortSignal): Promise<void>;
}
