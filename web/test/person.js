// A user of the chat page, for tests.

import { writeFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';

/** The folder of the screenshots. */
export const shots = fileURLToPath(new URL('../../bin/shots/', import.meta.url));

/**
 * Takes a screenshot of a page. Screenshots are for people, and no test reads them: make test, which takes none, sets
 * MAILROOM_TEST_SHOTS to no.
 */
export async function shoot(page, name, options) {
  if (process.env.MAILROOM_TEST_SHOTS !== 'no') await page.screenshot({ path: `${shots}${name}.png`, ...options });
}

/** A user of the page. */
export class Person {
  constructor(page, server) { [this.page, this.server] = [page, server]; }

  async come(thread = '') {
    await this.page.goto(`${this.server.url}/chat${thread && `#${thread}`}`);
    return this;
  }

  async paste(token) {
    await this.page.getByLabel('Token').fill(token);
    await this.page.keyboard.press('Enter');
  }

  async enter(thread = '') {
    await this.come(thread);
    await this.paste(this.server.token);
    await this.page.locator('#door').waitFor({ state: 'hidden' });
    return this;
  }

  async say(text) {
    await this.page.getByLabel('Message', { exact: true }).fill(text);
    await this.page.keyboard.press('Enter');
  }

  press(name) { return this.page.getByRole('button', { name, exact: true }).click(); }

  /**
   * Waits until look, which runs in the page, returns a true value, and returns it. It looks at intervals: by default it
   * would look at each frame, for which the browser draws the page sixty times a second.
   */
  async see(look, given) {
    return (await this.page.waitForFunction(look, given, { polling: 50 })).jsonValue();
  }

  /** Waits until the agent halting waits. */
  halfway() { return this.answer(20); }

  /** Releases the agent halting. */
  release() { return writeFile(`${this.server.shared}/gate`, ''); }

  /** Waits until the last reply has at least n words, and returns its text. */
  answer(n) {
    return this.see((least) => {
      const text = [...document.querySelectorAll('.message.assistant .body')].at(-1)?.textContent ?? '';
      return text.split(' ').filter(Boolean).length >= least && text;
    }, n);
  }

  /** Waits until the thread is idle, and returns the text of the last reply. */
  async rest() {
    await this.see(() => document.querySelector('#doing').textContent === '' && !document.querySelector('.live') && document.querySelector('.message.assistant'));
    return this.page.locator('.message.assistant .body').last().textContent();
  }

  /** Waits until the thread is idle, and the last reply has this text. */
  replied(text) {
    return this.see((wanted) => document.querySelector('#doing').textContent === '' && !document.querySelector('.live')
      && [...document.querySelectorAll('.message.assistant .body')].at(-1)?.textContent === wanted, text);
  }

  live() { return this.see(() => document.querySelector('#link').dataset.state === 'live'); }

  shown() { return this.page.locator('.message .body').allTextContents(); }

  shot(name) { return shoot(this.page, name); }
}
