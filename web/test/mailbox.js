// A real mail server, for tests.

import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

const binary = fileURLToPath(new URL('../../bin/fakes', import.meta.url));

/** The account of the server, and the address whose mailbox the tests read. */
export const account = { user: 'mailroom', password: 'correct horse/battery+staple', address: 'ops@test.example' };

/** Starts a mail server, which ends with the test. wait returns the messages of the mailbox, once there are n or more. */
export async function startMailServer(t) {
  if (!existsSync(binary)) throw new Error('bin/fakes is missing: run make pages');
  const child = spawn(binary, ['mail'], { stdio: ['pipe', 'pipe', 'inherit'] });
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const line = async () => {
    const { value, done } = await lines.next();
    if (done) throw new Error('the mail server ended');
    return value;
  };
  t.after(async () => {
    child.stdin.end();
    for await (const _ of lines);
  });
  return {
    address: await line(),
    async wait(n) {
      child.stdin.write(`${n}\n`);
      return JSON.parse(await line()).map(parse);
    },
  };
}

/** The headers of a message, and its parts by content type. */
function parse(raw) {
  const [head, ...rest] = raw.replaceAll('\r\n', '\n').split('\n\n');
  const headers = Object.fromEntries(head.replaceAll(/\n[ \t]+/g, ' ').split('\n').map((line) => [line.slice(0, line.indexOf(':')).toLowerCase(), line.slice(line.indexOf(':') + 2)]));
  const boundary = /boundary="?([^";]+)/.exec(headers['content-type'])?.[1];
  const parts = Object.fromEntries(rest.join('\n\n').split(`--${boundary}`).slice(1, -1).map((part) => {
    const [type] = /(?<=content-type: )[\w/]+/i.exec(part);
    const body = part.slice(part.indexOf('\n\n') + 2).replaceAll('=\n', '').replaceAll(/=([0-9A-F]{2})/g, (_, hex) => `%${hex}`);
    return [type, decodeURIComponent(body.replaceAll(/%(?![0-9A-F]{2})/g, '%25'))];
  }));
  return { headers, parts };
}
