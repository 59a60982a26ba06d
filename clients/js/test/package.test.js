// What npm publishes, from the view of those who install it.

import assert from 'node:assert/strict';
import { execFile, spawn } from 'node:child_process';
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

import { Mailroom } from '../mailroom.js';
import { open } from './server.js';

const here = fileURLToPath(new URL('..', import.meta.url));
const tool = (name) => join(here, 'node_modules', '.bin', name);

/** Runs a program to its end; a failure has its output. */
async function run(file, args, cwd) {
  try {
    return (await promisify(execFile)(file, args, { cwd, maxBuffer: 1e8 })).stdout;
  } catch ({ message, stdout, stderr }) {
    throw new Error(`${message}\n${stdout}\n${stderr}`);
  }
}

let folder;
let app; // an empty project with the packed package installed from its file, without a network
let packed;
let files;

before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'mailroom-pack-'));
  const [pack] = JSON.parse(await run('npm', ['pack', '--json', '--pack-destination', folder], here));
  [app, packed, files] = [join(folder, 'app'), join(folder, pack.filename), pack.files.map(({ path }) => path)];
  await mkdir(app);
  await writeFile(join(app, 'package.json'), '{ "name": "app", "private": true, "type": "module" }');
  await run('npm', ['install', '--offline', '--no-audit', '--no-fund', packed], app);
});

after(() => rm(folder, { recursive: true }));

const use = `
import { Mailroom } from 'mailroom';
import { work, type Session } from 'mailroom/worker';

export const client = new Mailroom({ url: 'http://127.0.0.1:8420' });
export const serve = () => work('js', async (s: Session) => \`\${s.input[0]?.text} \${await s.approval('may')}\`);
`;

test('the package has its modules and types and no test, and the linters of packages find nothing', async () => {
  for (const file of ['mailroom.js', 'mailroom.d.ts', 'worker/index.js', 'worker/index.d.ts', 'README.md']) {
    assert.ok(files.includes(file), file);
  }
  assert.deepEqual(files.filter((file) => /^(test|node_modules)\//.test(file) || file.endsWith('.go')), []);
  await run(tool('publint'), ['run', packed, '--strict'], here);
  await run(tool('attw'), [packed, '--profile', 'esm-only'], here);
});

for (const [module, moduleResolution] of [['node16', 'node16'], ['esnext', 'bundler']]) {
  test(`an empty project that resolves modules as ${moduleResolution} compiles and imports it`, async () => {
      await writeFile(join(app, 'app.ts'), use);
    const lib = ['es2022', 'dom', 'dom.asynciterable'];
    const compilerOptions = { strict: true, module, moduleResolution, target: 'es2022', lib, types: [], skipDefaultLibCheck: true };
    await writeFile(join(app, 'tsconfig.json'), JSON.stringify({ compilerOptions, files: ['app.ts'] }));
    await run(tool('tsc'), ['-p', app], app);
    const importing = "import('./app.js').then((app) => console.log(typeof app.serve))";
    assert.equal(await run(process.execPath, ['-e', importing], app), 'function\n');
  });
}

test('the client does not load the worker', async () => {
  const client = await readFile(join(here, 'mailroom.js'), 'utf8');
  assert.doesNotMatch(client, /from '.*worker/);
  const embedded = await readFile(join(here, 'embed.go'), 'utf8');
  assert.match(embedded, /go:embed \*\.js\n/, 'pages are served the modules of the client alone');
});

const pages = ['README.md', 'docs/learn/write-an-agent.md'];
for (const name of pages) test(`the worker of ${name} runs as it stands, installed from its folder`, async (t) => {
  const server = await open(t);
  const page = await readFile(join(here, '..', '..', name), 'utf8');
  const [, example] = /```js[^\n]*\n([^`]*import { work }.*?)```/s.exec(page);
  const empty = await mkdtemp(join(folder, 'shout-'));
  await writeFile(join(empty, 'shout.mjs'), example);
  await run('npm', ['install', '--offline', '--no-audit', '--no-fund', here], empty);
  const child = spawn(process.execPath, ['shout.mjs'], {
    cwd: empty, env: { ...process.env, MAILROOM_URL: server.url, MAILROOM_TOKEN: server.token },
    stdio: ['ignore', 'inherit', 'pipe'],
  });
  t.after(() => child.kill('SIGKILL'));
  for await (const line of createInterface({ input: child.stderr })) if (line.includes('worker registered')) break;
  const client = new Mailroom(server);
  const { run: sent } = await client.send('hello', { agent: 'shout' });
  for await (const _ of client.follow({ run: sent }));
  assert.equal((await client.run(sent)).reply, 'HELLO');
});

const clerks = [['README.md', 'work', /^Sent a lamp, order \d+\.$/],
  ['../../docs/learn/write-an-agent.md', "work\\('clerk'", /^Paid order A1\.$/]];
for (const [name, word, reply] of clerks) test(`the clerk in ${name} runs as it stands`, async (t) => {
  const server = await open(t);
  const page = await readFile(join(here, name), 'utf8');
  const [, example] = new RegExp('```js[^\\n]*\\n(import { work }[^`]*?' + word + '.*?)```', 's').exec(page);
  await writeFile(join(app, 'worker.js'), example);
  const child = spawn(process.execPath, ['worker.js'], {
    cwd: app, env: { ...process.env, MAILROOM_URL: server.url, MAILROOM_TOKEN: server.token },
    stdio: ['ignore', 'inherit', 'pipe'],
  });
  t.after(() => child.kill('SIGKILL'));
  for await (const line of createInterface({ input: child.stderr })) if (line.includes('worker registered')) break;
  const client = new Mailroom(server);
  const { run: sent } = await client.send('a lamp', { agent: 'clerk' });
  for await (const _ of client.follow({ run: sent, until: 'waiting' }));
  const [ticket] = (await client.tickets({ q: `run:${sent} state:open` })).items;
  await client.decide(ticket.id, { decision: 'approve', digest: ticket.digest });
  for await (const _ of client.follow({ run: sent }));
  assert.match((await client.run(sent)).reply, reply);
});

test('what browsers load imports nothing of Node and no package, and every module of it is published', async () => {
  const seen = new Set();
  const load = async (name) => {
    if (seen.has(name)) return;
    seen.add(name);
    const code = (await readFile(join(here, name), 'utf8')).replace(/^\s*(\/\/|\*|\/\*).*$/gm, '');
    const imports = /\b(?:from|import)\s*\(?\s*['"]([^'"]+)['"]/g;
    for (const [, from] of code.matchAll(imports)) {
      assert.match(from, /^\.\.?\/[\w./]+\.js$/, `${name} imports ${from}, which no browser finds`);
      await load(join(name, '..', from));
    }
    const free = code.replace(/globalThis\.process|process\.(once|off)\(name/g, '');
    assert.doesNotMatch(free, /\b(process\.|Buffer\.|require\(|__dirname|global\.)/, `${name} uses what only Node has`);
  };
  await load('mailroom.js');
  await load('worker/index.js');
  assert.ok(seen.size > 15, [...seen].join());
  for (const name of seen) assert.ok(files.includes(name), `${name} is not in the package`);
});
