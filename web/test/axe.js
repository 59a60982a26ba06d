// Accessibility rules, checked in the page without a change of its content policy.

import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';

const source = await readFile(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

/** The rules whose result depends on colors: of a page that has all others in one color scheme, another scheme needs no more. */
export const colorRules = ['color-contrast', 'link-in-text-block'];

/**
 * What a page violates of the given rules, or of all, one line for each rule. It waits for two frames first: what a page
 * does about its new size, it does in one.
 */
export async function violations(page, rules) {
  await page.evaluate(() => new Promise((drawn) => { requestAnimationFrame(() => requestAnimationFrame(() => drawn())); }));
  const session = await page.context().newCDPSession(page); // scripts of the debugger pass the policy
  try {
    const { result: { value: loaded } } = await session.send('Runtime.evaluate', { expression: 'typeof axe' });
    if (loaded === 'undefined') await session.send('Runtime.evaluate', { expression: source });
    const options = { resultTypes: ['violations'], ...(rules && { runOnly: rules }) };
    const { result, exceptionDetails } = await session.send('Runtime.evaluate', {
      expression: `axe.run(document, ${JSON.stringify(options)}).then(({ violations }) => violations.map(({ id, nodes }) => id + ': ' + nodes.map(({ html }) => html.slice(0, 160)).join(" | ")))`,
      awaitPromise: true, returnByValue: true,
    });
    if (exceptionDetails) throw new Error(exceptionDetails.exception?.description ?? exceptionDetails.text);
    return result.value;
  } finally {
    await session.detach();
  }
}
