// The log of a worker: stable phrases with their attributes, without texts of messages.

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

/** A log whose lines have these attributes too. It ignores errors of the log, which must not end an attempt. */
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
