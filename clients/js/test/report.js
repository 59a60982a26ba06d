// A reporter for node --test: a line for each test as soon as it has ended, also of files that run in parallel, the
// failures in full at the end, and a closing line with the number of tests.

import { basename } from 'node:path';
import { inspect } from 'node:util';

const seconds = (ms) => `${(ms / 1000).toFixed(1)}s`;

/** The name of a test with its file, which is a test itself, named by its path, if it ends before its tests begin. */
const title = ({ file, name }) => (file === undefined || file === name ? basename(name) : `${basename(file, '.test.js')}: ${name}`);

/** What a failed test threw. */
function reason({ error }) {
  const { failureType, cause } = error ?? {};
  return failureType === 'testCodeFailure' || cause instanceof Error ? inspect(cause) : `${failureType ?? 'failed'}: ${inspect(cause ?? error)}`;
}

export default async function* report(events) {
  const failures = [];
  let passed = 0;
  for await (const { type, data } of events) {
    const own = data?.details?.type !== 'suite' && data?.name !== data?.file && data?.skip === undefined; // neither a suite nor a file, and selected
    if (type === 'test:complete' && own) {
      yield `${data.details.passed ? 'ok  ' : 'FAIL'} ${title(data)} (${seconds(data.details.duration_ms)})\n`;
    } else if (type === 'test:pass' && own) {
      passed++;
    } else if (type === 'test:fail' && data.details.error?.failureType !== 'subtestsFailed') {
      failures.push(`FAIL ${title(data)} (${seconds(data.details.duration_ms)})\n${reason(data.details).replaceAll(/^/gm, '    ')}\n`);
    } else if (type === 'test:stdout' || type === 'test:stderr') {
      yield data.message;
    }
  }
  yield `${failures.join('')}${passed} passed, ${failures.length} failed\n`;
}
