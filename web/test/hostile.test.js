// Texts of agents that would stop or break a page: they are shown, and the page goes on.

import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';

import { Mailroom } from '../../clients/js/mailroom.js';
import { open } from '../../clients/js/test/server.js';
import { launch, openPage, signIn } from './browser.js';
import { Person } from './person.js';

const config = '[agents.echo]\nkind = "echo"\npace = "0s"\n';

// The end of each text is what a test looks for.
const TEXTS = {
  'deep quotes': `${'>'.repeat(2_500)} deep quotes end`,
  'deep lists': `${'- '.repeat(2_500)}deep lists end`,
  'deep numbers': `${'1. '.repeat(2_500)}deep numbers end`,
  'open links': `${'http://a.b/('.repeat(8_000)} open links end`,
  'open links of 180 KB': `${'http://a.b/('.repeat(15_000)} open links of 180 KB end`,
  'open brackets': `${'['.repeat(50_000)} open brackets end`,
  'open emphasis': `${'*a _b '.repeat(12_000)} open emphasis end`,
  'marks of code': `${'~'.repeat(90_000)}\` marks of code end`,
  'space after marks': `\`\`\`${' '.repeat(90_000)}\` space after marks end`,
  'open tags': `${'<a '.repeat(30_000)} open tags end`,
  'many blocks': `${'a\n\n'.repeat(30_000)} many blocks end`,
  'wide table': `${'|a'.repeat(20_000)}|\n${'|-'.repeat(20_000)}|\n wide table end`,
  'open comment': `${'<!--'.repeat(20_000)} open comment end`,
  'backslashes': `${'\\'.repeat(90_000)} backslashes end`,
};

describe('hostile texts', () => {
  let context;
  let close;
  before(async () => { [context, close] = await launch({ reducedMotion: 'reduce' }); });
  after(() => close());

  async function say(t, names) {
    const server = await open(t, config);
    const client = new Mailroom(server);
    const runs = {};
    for (const name of names) {
      const { run } = await client.send({ thread: name.replaceAll(' ', '-'), text: TEXTS[name] });
      for await (const _ of client.follow({ run }));
      runs[name] = run;
    }
    return { server, client, runs };
  }

  test('the console shows each of them and stays usable', async (t) => {
    const { server, client, runs } = await say(t, Object.keys(TEXTS));
    const normal = await client.send({ thread: 'normal', text: 'This is **bold**.' });
    for await (const _ of client.follow({ run: normal.run }));
    const page = await openPage(t, context);
    await signIn(page, (await server.command('open')).trim());
    for (const [name, run] of Object.entries(runs)) {
      await page.evaluate((id) => { location.hash = `#/run/${id}`; }, run);
      await page.locator('.markdown').getByText(`${name} end`).first().waitFor();
      await page.getByRole('heading', { name: 'Details' }).waitFor();
      assert.equal(await page.getByText('cannot be shown').count(), 0, name);
    }
    await page.evaluate((id) => { location.hash = `#/run/${id}`; }, normal.run);
    await page.locator('.markdown strong').getByText('bold').first().waitFor();
  });

  test('the chat shows each of them and stays usable', async (t) => {
    const { server } = await say(t, Object.keys(TEXTS));
    const person = await new Person(await openPage(t, context), server).enter();
    for (const name of Object.keys(TEXTS)) {
      await person.page.evaluate((thread) => { location.hash = `#${thread}`; }, name.replaceAll(' ', '-'));
      await person.page.locator('.assistant .body').getByText(`${name} end`).waitFor();
    }
    await person.say('still here');
    await person.page.locator('.assistant .body').getByText('still here').waitFor();
  });
});
