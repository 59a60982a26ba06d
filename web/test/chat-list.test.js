// The list of conversations in the chat: names, words, ages and marks.

import assert from 'node:assert/strict';
import { mkdir } from 'node:fs/promises';
import { after, before, describe, test } from 'node:test';

import { Mailroom } from '../../clients/js/mailroom.js';
import { open } from '../../clients/js/test/server.js';
import { work } from '../../clients/js/worker/index.js';
import { violations } from './axe.js';
import { launch, openPage } from './browser.js';
import { HOSTILE } from './operator.js';
import { Person, shots } from './person.js';

const config = (folder) => `
[agents.echo]
kind = "echo"
pace = "0s"
[agents.tour]
kind = "tour"
pace = "0s"
[agents.later]
kind = "exec"
command = ["sh", "-c", "until [ -e ${folder}/gate ]; do sleep 0.05; done; cat"]
[channels.desk]
kind = "poll"
url = "http://127.0.0.1:9"
workspace = "w"
token_env = "HOME"
agent = "echo"
`;

const quiet = { debug() {}, info() {}, warn() {}, error() {} };

/** The list of a person, and an entry by what a screen reader says of it. */
const listOf = ({ page }) => page.locator('#recent');
const entry = (person, name) => listOf(person).getByRole('button', { name });

/** Has the page look at the threads, as it does every 20 seconds. */
const refresh = ({ page }) => page.evaluate(() => { document.dispatchEvent(new Event('visibilitychange')); });

/** Sends a message and waits for the end of its run, or for an entry of a kind. */
async function settle(client, body, kind) {
  const sent = await client.send(body);
  for await (const { entry: received } of client.follow({ run: sent.run })) if (kind && received?.kind === kind) break;
  return sent.thread;
}

describe('the list of conversations', () => {
  let context;
  let close;

  before(async () => {
    await mkdir(shots, { recursive: true });
    [context, close] = await launch({ reducedMotion: 'reduce' });
  });
  after(() => close());

  async function arrive(t) {
    const server = await open(t, config);
    return { server, client: new Mailroom(server), person: new Person(await openPage(t, context), server) };
  }

  test('says what was asked instead of ids, and what waits for the user', async (t) => {
    const { server, client, person } = await arrive(t);
    const worker = work('sleepy', (s) => s.sleep('night', '10h'), { url: server.url, token: server.token, log: quiet });
    t.after(() => worker.stop({ within: 0 }).catch(() => {}));
    const named = await settle(client, { text: 'Plan the **move** to [Oslo](https://x.y)' });
    await client.patchThread(named, { metadata: { title: 'The move' } });
    await settle(client, { text: '## Which invoice\n\n**is open**?' });
    await settle(client, { thread: 'support-40', text: `Why does \`make\` fail ${'again and '.repeat(20)}again?` });
    await settle(client, { thread: 'hostile', text: HOSTILE });
    await settle(client, { thread: 'asks', text: 'Show me the harbour', agent: 'tour' }, 'run.waiting');
    await worker.ready;
    await settle(client, { thread: 'sleeps', text: 'Wake me', agent: 'sleepy' }, 'run.waiting');
    await client.send({ thread: 'busy', text: 'Take your time', agent: 'later' });
    const { items } = await client.threads({ limit: 500 });
    assert.ok(items.some(({ id }) => id === 'channel:desk'), 'the server has threads for itself');

    await person.enter('asks');
    await entry(person, /^Take your time , (now|\d+ min) , (Working|Queued) , busy$/).waitFor();
    await entry(person, /^Show me the harbour , (now|\d+ min) , Waits for you , asks$/).waitFor();
    await entry(person, /^Wake me , (now|\d+ min) , Waiting , sleeps$/).waitFor();
    await entry(person, /^The move , (now|\d+ min) , Plan the move to Oslo$/).waitFor();
    await entry(person, /^Which invoice is open\? , (now|\d+ min) , echo$/).waitFor();
    await entry(person, /^Why does make fail again .* , support-40$/).waitFor();
    const texts = await listOf(person).getByRole('button').allTextContents();
    assert.equal(texts.length, 7, texts.join('\n'));
    assert.ok(!texts.some((text) => /[0-9a-f]{8}-[0-9a-f]{4}/.test(text)), texts.join('\n'));
    assert.match(texts.join('\n'), /<img src=x onerror="document.title=1"> ⟦U\+202E⟧gnp\.exe/);
    assert.equal(await person.page.locator('#recent img').count(), 0);

    const { page } = person;
    await page.getByRole('region', { name: 'Approval needed' }).waitFor();
    for (const [colorScheme, width] of [['light', 1440], ['light', 900], ['dark', 390]]) {
      await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' });
      await page.setViewportSize({ width, height: 844 });
      if (width === 390) await person.press('Threads');
      await page.locator('#drawer').waitFor();
      await person.shot(`chat-list-${width}`);
      if (width !== 900) assert.deepEqual(await violations(page), [], `at ${width} in ${colorScheme}`);
    }
    const small = await page.locator('#drawer :is(button, input, a), #menu').evaluateAll((all) => (
      all.map((one) => [one.id || one.textContent, one.offsetHeight]).filter(([, height]) => height < 44)));
    assert.deepEqual(small, []);
    assert.equal(await page.evaluate(() => document.documentElement.scrollWidth), 390, 'nothing sticks out');

    await page.keyboard.press('Escape');
    await person.press('Approve');
    await person.press('Threads');
    await entry(person, /^Show me the harbour , (now|\d+ min) , asks$/).waitFor();
  });

  test('marks what this browser has not shown, and changes as messages arrive', async (t) => {
    const { client, person } = await arrive(t);
    const { page } = person;
    for (const thread of ['two', 'one']) await settle(client, { thread, text: `first in ${thread}` });
    await person.enter('one');
    await entry(person, /^first in two , [^,]+ , two$/).waitFor(); // of what was there before, nothing is unread
    await entry(person, /^first in one , [^,]+ , one$/).waitFor();
    await person.live();
    await settle(client, { thread: 'one', text: 'seen at once' });
    await entry(person, /^seen at once , [^,]+ , one$/).waitFor();
    await settle(client, { thread: 'two', text: 'news' });
    await settle(client, { thread: 'three', text: 'a new thread' });
    await refresh(person);
    await entry(person, /^news , unread, [^,]+ , two$/).waitFor();
    const order = () => listOf(person).getByRole('button').evaluateAll((all) => all.map(({ dataset }) => dataset.thread));
    assert.deepEqual(await order(), ['three', 'two', 'one']);
    await person.shot('chat-list-unread');

    await page.getByRole('button', { name: 'New thread', exact: true }).focus();
    const focused = () => page.evaluate(() => document.activeElement.dataset.thread);
    const went = [];
    for (const key of ['Tab', 'End', 'ArrowUp', 'Home', 'ArrowUp', 'ArrowDown']) {
      await page.keyboard.press(key);
      went.push(await focused());
    }
    assert.deepEqual(went, ['three', 'one', 'two', 'three', 'three', 'two']);
    await settle(client, { thread: 'one', text: 'moves to the front' });
    await entry(person, /^moves to the front , [^,]+ , one$/).waitFor();
    await person.replied('moves to the front'); // it is shown whole before it is left
    assert.deepEqual([await order(), await focused()], [['one', 'three', 'two'], 'two']);
    await page.keyboard.press('Enter');
    await person.see(() => document.querySelector('#title').textContent === 'two' && document.querySelector('#link').dataset.state === 'live');
    await page.getByText('news', { exact: true }).last().waitFor();
    await page.reload();
    await entry(person, /^a new thread , unread, [^,]+ , three$/).waitFor();
    await entry(person, /^news , [^,]+ , two$/).waitFor();
    await entry(person, /^moves to the front , [^,]+ , one$/).waitFor();
  });

  test('keeps what was shown of 500 threads, until the user leaves', async (t) => {
    const { client, person } = await arrive(t);
    const { page } = person;
    for (const thread of ['kept', 'other']) await settle(client, { thread, text: thread });
    await person.come();
    const key = 'mailroom.seen /';
    await page.evaluate((k) => localStorage.setItem(k, JSON.stringify(Array.from({ length: 500 }, (_, i) => [`old-${i}`, 1]))), key);
    await person.enter('kept');
    await entry(person, /^other , unread, /).waitFor();
    const kept = await person.see((k) => {
      const all = JSON.parse(localStorage.getItem(k));
      return all.at(-1)[0] === 'kept' && all;
    }, key);
    assert.deepEqual([kept.length, kept[0][0], kept.at(-1)[1]], [500, 'old-1', (await client.thread('kept')).last_seq]);
    await page.evaluate((k) => localStorage.setItem(k, '{"not":"ours"'), key);
    await refresh(person);
    await entry(person, /^other , now|^other , \d/).waitFor();
    await person.press('Sign out');
    await person.see((k) => localStorage.getItem(k) === null, key);
  });
});
