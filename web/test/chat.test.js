import assert from 'node:assert/strict';
import { mkdir } from 'node:fs/promises';
import { after, before, describe, test } from 'node:test';

import { Mailroom } from '../../clients/js/mailroom.js';
import { open } from '../../clients/js/test/server.js';
import { hold, launch, openPage } from './browser.js';
import { Person, shots } from './person.js';
import { below } from './proxy.js';

// The agent halting repeats its input word by word. After twenty words it waits until the test releases it, so that what
// a test does before that may take as long as a busy machine needs. An exec agent gets no steered messages: tests of those
// use the agent slow, whose runs take minutes.
const halting = 'n=0; for word in $(cat); do printf "%s " "$word"; n=$((n+1)); if [ $n = 20 ]; then until [ -e "$GATE" ]; do sleep 0.02; done; fi; sleep 0.005; done';

const config = (folder) => `
[agents.halting]
kind = "exec"
command = ["sh", "-c", '${halting}']
env = { GATE = "${folder}/gate" }
[agents.echo]
kind = "echo"
pace = "40ms"
[agents.slow]
kind = "echo"
pace = "1s"
[agents.tour]
kind = "tour"
pace = "2ms"
[agents.broken]
kind = "exec"
command = ["false"]
`;

const words = (n) => Array.from({ length: n }, (_, i) => `word${i}`).join(' ');

/** Waits until the thread is idle and returns its last message. */
async function whole(client, thread) {
  for await (const _ of client.follow({ thread, until: 'settled' }));
  return (await client.messages(thread)).items.at(-1);
}

describe('the chat page', () => {
  let context;
  let close;

  before(async () => {
    await mkdir(shots, { recursive: true });
    [context, close] = await launch({ reducedMotion: 'reduce' });
  });
  after(() => close());

  /** A server, and a person with an empty tab in a browser that knows nothing of it. */
  async function arrive(t) {
    const server = await open(t, config);
    const person = await visit(t, server);
    return { server, person, client: new Mailroom(server) };
  }

  async function visit(t, server) {
    return new Person(await openPage(t, context), server);
  }

  test('a reply is shown while it is written, after a reload, and in a second tab', async (t) => {
    const { server, person, client } = await arrive(t);
    await person.enter();
    await person.page.getByLabel('Agent').selectOption('halting');
    await person.say(words(40));
    const early = await person.answer(1);
    const half = await person.halfway();
    assert.ok(half.startsWith(early), 'it grows');
    await person.page.reload();
    assert.equal(await person.halfway(), half, 'the reload shows what was there');
    const thread = new URL(person.page.url()).hash.slice(1);
    const second = await (await visit(t, server)).come(thread); // the token comes from the first tab
    assert.equal(await second.halfway(), half);
    await person.shot('live');
    await person.release();
    const { text } = await whole(client, decodeURIComponent(thread));
    assert.equal(text.trim(), words(40));
    assert.deepEqual([await person.rest(), await second.rest()], [text, text]);
    assert.deepEqual([await person.shown(), await second.shown()], [[words(40), text], [words(40), text]]);
  });

  test('a stop in a second tab keeps the text in both', async (t) => {
    const { server, person, client } = await arrive(t);
    await person.enter('stop');
    await person.page.getByLabel('Agent').selectOption('halting');
    await person.say(words(40));
    await person.answer(5);
    const second = await (await visit(t, server)).come('stop');
    await second.answer(8);
    await second.press('Stop');
    const [one, two] = [await person.rest(), await second.rest()];
    const { items } = await client.messages('stop');
    assert.ok(items.at(-1).partial && items.at(-1).text.startsWith('word0 word1'), items.at(-1).text);
    assert.deepEqual([one, two], [items.at(-1).text, items.at(-1).text]);
    for (const { page } of [person, second]) {
      await page.getByRole('log').getByText('Cut off here').waitFor();
      await page.getByRole('log').getByText('Stopped', { exact: true }).waitFor();
    }
    await second.shot('stopped');
    await person.press('Try again');
    await second.see(() => document.querySelector('#doing').textContent === 'halting is working');
    await second.press('Stop');
    await second.rest();
  });

  test('a run continues after an approval in the page', async (t) => {
    const { server, person, client } = await arrive(t);
    await person.enter();
    await person.page.getByLabel('Agent').selectOption('tour');
    await person.say('show me');
    const card = person.page.getByRole('region', { name: 'Approval needed' });
    await card.getByText('send_postcard').waitFor();
    assert.match(await card.locator('pre').textContent(), /"text": "At the harbour it is grey, with a slow tide\."/);
    await person.see(() => document.querySelector('#doing').textContent === 'tour is waiting for you');
    await person.shot('asks');
    const second = await (await visit(t, server)).come(new URL(person.page.url()).hash.slice(1));
    await card.getByLabel('Reason').fill('it is pretty there');
    await card.getByRole('button', { name: 'Approve' }).click();
    await second.page.getByText('Approved by admin (it is pretty there)').waitFor();
    assert.match(await person.rest(), /admin allowed it \("it is pretty there"\), and it was sent once/);
    const { items: [ticket] } = await client.tickets({ q: 'kind:approval' });
    assert.equal(ticket.decision, 'approve');
    await person.shot('allowed');
  });

  test('the page continues after a kill of the server during a reply', async (t) => {
    const { server, person, client } = await arrive(t);
    await client.send(words(40), { thread: 'killed', agent: 'halting' });
    await person.enter('killed');
    const half = await person.halfway();
    await server.kill();
    await person.see(() => document.querySelector('#link').dataset.state === 'waiting');
    assert.equal(await person.answer(20), half, 'what was there is still there');
    await person.page.getByText('Last seen: halting is working').waitFor();
    await person.shot('reconnecting');
    await server.start();
    await person.live();
    await person.release();
    const { text } = await whole(client, 'killed');
    assert.equal(text.trim(), words(40));
    assert.equal(await person.rest(), text);
  });

  test('the page asks again for a wrong token, and in all tabs after a sign-out', async (t) => {
    const { server, person } = await arrive(t);
    await person.come();
    await person.paste('wrong');
    await person.page.getByText('The server does not accept this token.').waitFor();
    await person.shot('door');
    await person.paste(server.token);
    await person.page.locator('#door').waitFor({ state: 'hidden' });
    const second = await (await visit(t, server)).come();
    await second.see(() => document.querySelector('#agent option[value="echo"]'));
    assert.equal(await second.page.locator('#door').isVisible(), false);
    await second.press('Sign out');
    await person.page.getByText('You signed out in another tab.').waitFor();
    await second.page.locator('#door').waitFor();
    for (const { page } of [person, second]) {
      assert.deepEqual(await page.evaluate(() => [sessionStorage.getItem('mailroom.token'), localStorage.length, document.cookie]), [null, 0, '']);
    }
    await person.page.reload();
    await person.page.getByLabel('Token').waitFor();
  });

  test('a revoked token is rejected with a reason, and the page asks for another', async (t) => {
    const { server, person } = await arrive(t);
    const token = (await server.command('token', 'create', 'web', '--scope', 'read,submit,decide')).trim();
    await person.come('mine');
    await person.paste(token);
    await person.page.locator('#door').waitFor({ state: 'hidden' }); // before that no key gets past it
    await person.page.getByLabel('Agent').selectOption('halting');
    await person.say(words(40));
    await person.answer(3);
    await person.live();
    await server.command('token', 'revoke', 'web');
    await person.page.getByText('The server no longer accepts this token.').waitFor();
    await person.shot('revoked');
    assert.deepEqual(await person.shown(), []);
    const other = (await server.command('token', 'create', 'other', '--scope', 'read,submit,decide')).trim();
    await person.paste(other);
    await person.page.getByText('Write a message to start a thread.').waitFor(); // like a missing thread
    await person.page.reload();
    await person.page.getByText('Write a message to start a thread.').waitFor();
    assert.deepEqual(await person.shown(), []);
  });

  test('markup in messages stays text', async (t) => {
    const { server, person } = await arrive(t);
    const text = '<script>window.bad = 1</script><img src=x onerror="window.bad = 2"> <b>bold?</b> javascript:alert(1)';
    await person.enter('<i>t');
    await person.say(text);
    assert.equal(await person.rest(), text);
    assert.deepEqual(await person.shown(), [text, text]);
    assert.deepEqual(await person.page.evaluate(() => [window.bad ?? null, document.querySelectorAll('main script, main img, main b, main a').length]), [null, 0]);
    assert.equal(await person.page.locator('#title').textContent(), '<i>t');
    const { headers } = await fetch(`${server.url}/chat`);
    assert.match(headers.get('content-security-policy'), /default-src 'none'.*script-src 'self'.*frame-ancestors 'none'/);
  });

  test('invisible characters are shown', async (t) => {
    const { person } = await arrive(t);
    await person.enter('hidden');
    await person.say('run a\u202etxt.exe \u200b`b\u2066c` 👩\u200d👧 می\u200cخواهم');
    const seen = 'run a⟦U+202E⟧txt.exe ⟦U+200B⟧';
    await person.rest();
    const [own, answer] = await person.shown();
    assert.equal(own, `${seen}\`b⟦U+2066⟧c\` 👩\u200d👧 می\u200cخواهم`);
    assert.equal(answer, `${seen}b⟦U+2066⟧c 👩\u200d👧 می\u200cخواهم`);
  });

  test('messages queue, steer the current run, or interrupt it', async (t) => {
    const { person, client } = await arrive(t);
    await person.enter('line');
    await person.page.getByLabel('Agent').selectOption('slow');
    await person.say(words(300));
    await person.answer(3);
    await person.say('next please');
    await person.page.getByRole('log').getByText('Queued', { exact: true }).waitFor();
    await person.see(() => document.querySelector('#doing').textContent.includes('1 more queued'));
    await person.page.getByLabel('Message', { exact: true }).fill('and this too');
    await person.page.getByText('Add to this').click();
    await person.press('Send');
    await person.see(() => [...document.querySelectorAll('.message.user:not(.pale) .body')].some(({ textContent }) => textContent === 'and this too'));
    await person.page.getByLabel('Message', { exact: true }).fill('no, this');
    await person.page.getByText('Instead').click();
    await person.shot('modes');
    await person.press('Send');
    await person.page.getByRole('log').getByText('Superseded before it was read').waitFor();
    assert.equal(await person.rest(), 'no, this');
    const { items } = await client.messages('line');
    assert.deepEqual(items.filter(({ role }) => role === 'user').map(({ text }) => text), [words(300), 'and this too', 'no, this']);
  });

  test('a failure shows its reason and can be retried', async (t) => {
    const { person, client } = await arrive(t);
    await client.send('fail', { thread: 'bad', agent: 'broken', max_attempts: 1 });
    await person.enter('bad');
    await person.page.getByRole('log').getByText('Failed', { exact: true }).waitFor();
    await person.page.getByRole('log').getByText('exit status 1').first().waitFor();
    await person.shot('failed');
    await person.press('Try again');
    await person.see(() => document.querySelectorAll('.end').length === 2);
  });

  test('a long thread shows its end first, and the rest on demand', async (t) => {
    const { person, client } = await arrive(t);
    for (let i = 0; i < 90; i++) await client.send(`number ${i}`, { thread: 'long', agent: 'broken', max_attempts: 1 });
    for await (const _ of client.follow({ thread: 'long', until: 'settled', after: '0' }));
    await person.enter('long');
    await person.page.getByRole('log').getByText('number 89', { exact: true }).waitFor();
    assert.equal(await person.page.getByRole('log').getByText('number 0', { exact: true }).count(), 0);
    const first = person.page.getByRole('log').getByText('number 0', { exact: true });
    while (await first.count() === 0) {
      const before = await person.page.locator('.item').count();
      await person.press('Show earlier messages');
      await person.see((count) => document.querySelectorAll('.item').length > count, before);
    }
    assert.deepEqual(await person.shown(), Array.from({ length: 90 }, (_, i) => `number ${i}`));
  });

  test('an unanswered submit is sent once, also after a reload', async (t) => {
    const { person, client } = await arrive(t);
    await person.enter();
    const requests = [];
    let hold = true;
    await person.page.route('**/v1/messages', async (route) => {
      requests.push(route.request().postDataJSON());
      if (hold) await route.fetch().then(() => route.abort(), () => {}); // the request succeeds, but its answer is lost
      else await route.continue();
    });
    await person.say('once');
    await person.page.getByText('Sending').waitFor();
    await person.say('twice'); // not yet: it is not known where to
    assert.equal(await person.page.getByLabel('Message', { exact: true }).inputValue(), 'twice');
    await person.page.reload();
    hold = false;
    assert.equal(await person.rest(), 'once');
    const { items } = await client.threads();
    assert.equal(items.length, 1);
    assert.deepEqual(await person.shown(), ['once', 'once']);
    assert.equal(new Set(requests.map(({ key }) => key)).size, 1, 'under one key');
  });

  test('what a fast user types and chooses is kept, and nothing is sent before the page can', async (t) => {
    const { server, person, client } = await arrive(t);
    await whole(client, (await client.send('hello', { thread: 'mine', agent: 'echo' })).thread);
    await person.enter('mine');
    const { page } = person;
    const holds = await Promise.all(['**/chat/chat.js', '**/v1/session', '**/v1/threads/mine'].map((path) => hold(page, path)));
    const [script, session, thread] = holds;
    await page.goto('about:blank');
    await page.goto(`${server.url}/chat#mine`, { waitUntil: 'commit' });
    await script.asked;
    const field = page.getByLabel('Message', { exact: true });
    const send = page.getByRole('button', { name: 'Send', exact: true });
    await field.fill('early');
    await script.release();
    await session.asked;
    await field.press('Enter');
    await field.press('End');
    await field.pressSequentially(' bird');
    assert.deepEqual([await field.inputValue(), await send.isDisabled()], ['early bird', true]);
    await session.release();
    await thread.asked;
    await page.getByLabel('Agent').selectOption('tour');
    await thread.release();
    await page.locator('.message.assistant').getByText('hello').waitFor();
    assert.deepEqual([await field.inputValue(), await page.getByLabel('Agent').inputValue()], ['early bird', 'tour']);
    await send.click();
    await page.locator('#doing').getByText('tour').waitFor();
    assert.equal((await client.runs({ q: 'thread:mine agent:tour' })).items.length, 1);
    assert.equal(await page.locator('.message.user').getByText('early bird').count(), 1);
  });

  test('every function is usable with the keyboard', async (t) => {
    const { person, client } = await arrive(t);
    await client.send('hello', { thread: 'by name' });
    await person.enter();
    const { keyboard } = person.page;
    await person.page.locator('#recent button').waitFor();
    await person.page.getByRole('button', { name: 'New thread' }).focus();
    const reached = [];
    for (let i = 0; i < 8; i++) {
      await keyboard.press('Tab');
      reached.push(await person.page.evaluate(() => document.activeElement.id || document.activeElement.textContent));
    }
    assert.match(reached.join('|'), /^hello.*by name\|goto-id\|leave\|Manual\|API reference\|.*text\|agent/);
    await person.page.getByLabel('Open or start a thread by its name').focus();
    await keyboard.type('by name');
    await keyboard.press('Enter');
    assert.equal(await person.rest(), 'hello');
    assert.equal(new URL(person.page.url()).hash, '#by%20name');
    await keyboard.type('and more'); // the field has the focus
    await keyboard.press('Enter');
    await person.see(() => document.querySelectorAll('.message.assistant:not(.live)').length === 2);
    assert.deepEqual(await person.shown(), ['hello', 'hello', 'and more', 'and more']);
    await person.page.goBack();
    await person.page.getByText('Write a message to start a thread.').waitFor();
  });

  test('the page works below a path prefix of a proxy, over the socket', async (t) => {
    const { server, client } = await arrive(t);
    const person = await visit(t, { url: await below(t, server.url, '/mail/room'), token: server.token });
    const sockets = [];
    person.page.on('websocket', (socket) => sockets.push(socket.url()));
    await person.page.goto(`${person.server.url}/chat`);
    await person.paste(server.token);
    await person.page.locator('#door').waitFor({ state: 'hidden' }); // nothing is sent before the token is known to be good
    await person.say('through and back');
    assert.equal(await person.rest(), 'through and back');
    assert.match(new URL(person.page.url()).pathname, /^\/mail\/room\/chat$/);
    assert.deepEqual(sockets.map((url) => new URL(url).pathname), ['/mail/room/v1/ws']);
    assert.equal((await client.threads()).items.length, 1);
  });

  test('an Enter of an input method sends nothing', async (t) => {
    const { person, client } = await arrive(t);
    await person.enter('ime');
    const field = person.page.getByLabel('Message', { exact: true });
    await field.fill('こん');
    const press = (event) => field.evaluate((node, given) => node.dispatchEvent(new KeyboardEvent('keydown', { key: 'Enter', bubbles: true, cancelable: true, ...given })), event);
    assert.equal(await press({ isComposing: true }), true, 'the page took it'); // most browsers
    assert.equal(await press({ keyCode: 229 }), true, 'the page took it'); // Safari, after the composition
    assert.equal(await field.inputValue(), 'こん');
    await field.press('Enter');
    await person.rest();
    assert.equal((await client.threads()).items.length, 1);
    assert.deepEqual((await client.entries('ime', { kind: 'message' })).items.map(({ body }) => body.text)[0], 'こん');
  });

  test('the page works on a phone and in dark mode', async (t) => {
    const { person } = await arrive(t);
    await person.page.emulateMedia({ colorScheme: 'dark' });
    await person.enter('phone');
    const field = person.page.getByLabel('Message', { exact: true });
    for (const line of ['# A list of *things*:', '- `one`', '- **two**', '```sh', 'make run', '```']) {
      await field.pressSequentially(line);
      await field.press('Shift+Enter'); // a new line; Enter alone sends
    }
    await field.press('Enter');
    await person.rest();
    assert.equal(await person.page.locator('.assistant .code code').textContent(), 'make run');
    await person.shot('dark');
    await person.page.setViewportSize({ width: 390, height: 780 });
    await person.shot('dark-narrow');
    const { height } = await person.page.getByRole('button', { name: 'Send', exact: true }).boundingBox();
    assert.ok(height >= 44, `Send is ${height} px high`);
    const list = person.page.getByRole('navigation', { name: 'Threads' });
    assert.equal(await list.isVisible(), false);
    await person.press('Threads');
    await list.getByRole('button', { name: /phone/ }).waitFor();
    await person.shot('dark-drawer');
    await person.page.keyboard.press('Escape');
    await list.waitFor({ state: 'hidden' });
    const wide = await person.page.evaluate(() => document.documentElement.scrollWidth);
    assert.equal(wide, 390, 'nothing sticks out');
  });
});
