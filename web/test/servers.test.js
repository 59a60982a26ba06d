import assert from 'node:assert/strict';
import { mkdir, writeFile } from 'node:fs/promises';
import { after, before, describe, test } from 'node:test';

import { Mailroom } from '../../clients/js/mailroom.js';
import { open } from '../../clients/js/test/server.js';
import { launch } from './browser.js';
import { startCluster } from './cluster.js';
import { Person, shots } from './person.js';

const words = (n) => Array.from({ length: n }, (_, i) => `word${i}`).join(' ');

// The agent stepping repeats its input word by word. After each ten words it waits until the test opens
// the next gate. All servers see the gates.
const stepping = 'n=0; for word in $(cat); do printf "%s " "$word"; n=$((n+1)); if [ $((n % 10)) = 0 ]; then until [ -e "$GATE$n" ]; do sleep 0.02; done; fi; done';

const config = (cluster, shared) => `
isolation = "none"
lease = "3s"
renew = "500ms"
sweep = "200ms"
[agents.stepping]
kind = "exec"
command = ["sh", "-c", '${stepping}']
env = { GATE = "${shared}/gate" }
[store]
kind = "postgres"
[postgres]
url = "${cluster.url}"
`;

describe('the chat page with several servers', () => {
  let context;
  let close;

  before(async () => {
    await mkdir(shots, { recursive: true });
    [context, close] = await launch({ reducedMotion: 'reduce' });
  });
  after(() => close());

  test('an answer is shown once while the wire is cut, the database is killed, and the server that writes it', async (t) => {
    const cluster = await startCluster(t);
    const first = await open(t, (shared) => config(cluster, shared));
    const second = await open(t, config(cluster, first.shared));
    const release = (n) => writeFile(`${first.shared}/gate${n}`, '');

    const { run } = await new Mailroom(first).send(words(50), { thread: 'moved', agent: 'stepping' });
    const writer = await findWriter(first, second);
    const person = new Person(await context.newPage(), writer === first ? second : first);
    t.after(() => person.page.close());
    await person.enter('moved');
    await person.answer(10);
    await person.live();
    await record(person.page);

    for (const n of [10, 20]) {
      await cluster.terminate('mailroom_wire');
      await release(n);
      await person.answer(n + 10);
    }

    await cluster.kill();
    await person.page.getByText('Last seen: stepping is working').waitFor();
    await person.shot('database-away');
    await cluster.restart();
    await person.live();
    await release(30);
    await person.answer(40);

    await writer.kill();
    await release(40);
    await release(50);
    const answer = await person.rest();
    await person.shot('other-server');
    assert.equal(answer.trim(), words(50));
    assert.deepEqual((await new Mailroom(person.server).messages('moved')).items.map(({ text }) => text), [words(50), answer]);
    assert.equal((await new Mailroom(person.server).run(run)).status, 'completed');

    const seen = await person.page.evaluate(() => window.seen); // a reload would have removed it
    for (const now of seen) {
      const said = `the page showed ${JSON.stringify(now)}`;
      const current = now.replies.filter(({ retried }) => !retried);
      assert.ok(now.replies.every(({ text }) => answer.startsWith(text)), said);
      assert.ok(current.length <= 1, said);
      if (now.link !== 'live') assert.match(now.doing, /^Last seen: stepping /, said);
      else if (now.doing) assert.match(now.doing, /^stepping (is working|retries shortly)$/, said);
      else assert.deepEqual(current, [{ text: answer, retried: false }], said);
    }
    assert.deepEqual(seen.at(-1).replies.filter(({ retried }) => !retried).length, 1);
    assert.ok(seen.some(({ link }) => link === 'waiting'));
  });
});

/** Returns the server that runs the only run. */
async function findWriter(...servers) {
  for (;;) {
    for (const server of servers) {
      const { items } = await (await fetch(`${server.url}/v1/workers`, { headers: { authorization: `Bearer ${server.token}` } })).json();
      const found = servers.find(({ pid }) => items.some((worker) => worker.running === 1 && worker.pid === pid));
      if (found) return found;
    }
  }
}

/** Records what the page shows, in each frame in which it changes. */
function record(page) {
  return page.evaluate(() => {
    window.seen = [];
    const look = () => {
      const now = {
        link: document.querySelector('#link').dataset.state,
        doing: document.querySelector('#doing').textContent,
        replies: [...document.querySelectorAll('.message.assistant')].map((node) => ({
          text: node.querySelector('.body').textContent,
          retried: node.textContent.includes('Cut off here, then retried'),
        })),
      };
      if (JSON.stringify(now) !== JSON.stringify(window.seen.at(-1))) window.seen.push(now);
    };
    // The observer of a size runs after all other callbacks of a frame, so it sees what is painted.
    const probe = document.documentElement.appendChild(document.createElement('div'));
    Object.assign(probe.style, { position: 'fixed', visibility: 'hidden', width: '1px', height: '1px' });
    new ResizeObserver(look).observe(probe);
    let due = false;
    new MutationObserver(() => {
      if (due) return;
      due = true;
      requestAnimationFrame(() => {
        due = false;
        probe.style.width = probe.style.width === '1px' ? '2px' : '1px';
      });
    }).observe(document.body, { subtree: true, childList: true, characterData: true, attributes: true });
  });
}
