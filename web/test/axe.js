// Accessibility rules, checked in the page without a change of its content policy.

import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';

const source = await readFile(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

/** What a page violates, one line for each rule. */
export async function violations(page) {
  const session = await page.context().newCDPSession(page); // scripts of the debugger pass the policy
  try {
    await session.send('Runtime.evaluate', { expression: source });
    const { result, exceptionDetails } = await session.send('Runtime.evaluate', {
      expression: 'axe.run(document, { resultTypes: ["violations"] }).then(({ violations }) => violations.map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html.slice(0, 160)).join(" | ")}`))',
      awaitPromise: true, returnByValue: true,
    });
    if (exceptionDetails) throw new Error(exceptionDetails.exception?.description ?? exceptionDetails.text);
    return result.value;
  } finally {
    await session.detach();
  }
}
