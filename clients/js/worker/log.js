// The log of a worker: stable phrases with their attributes. Texts of messages are never among them.

/** Writes lines to stderr, without debug. A closed stderr loses lines and nothing else. */
export const stderr = { debug() {}, info: line, warn: line, error: line };

function line(message, attributes) {
  const shown = Object.entries(attributes).map(([name, value]) => ` ${name}=${show(value)}`);
  console.error(`${new Date().toISOString()} ${message}${shown.join('')}`);
}

function show(value) {
  if (value instanceof Error) return JSON.stringify(value.stack ?? value.message);
  return typeof value === 'string' && /^[\w.:/-]+$/.test(value) ? value : JSON.stringify(value);
}

/** A log whose lines have these attributes too. A log that throws does not end what it tells of. */
export function withAttributes(log, attributes) {
  const levels = {};
  for (const level of ['debug', 'info', 'warn', 'error']) {
    levels[level] = (message, more = {}) => {
      try {
        log[level]?.(message, { ...attributes, ...more });
      } catch {
        // the log is the caller's
      }
    };
  }
  return levels;
}
