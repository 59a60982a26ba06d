// A real server on a temporary data folder, for tests.

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

import { ownPort } from './ports.js';

const binary = fileURLToPath(new URL('../../../bin/mailroom', import.meta.url));

/**
 * Creates a data folder and starts a server on it, which stops at the end of the test. config is the text of mailroom.toml,
 * or a function that returns it for a folder outside of the data folder, which the server's programs can read.
 */
export async function open(t, config = '') {
  if (!existsSync(binary)) throw new Error('bin/mailroom is missing: run make build');
  const server = new Server(await mkdtemp(join(tmpdir(), 'mailroom-js-')));
  t.after(() => server.close());
  await Promise.all([mkdir(server.shared), mkdir(server.folder, { mode: 0o700 })]);
  await writeFile(join(server.folder, 'mailroom.toml'), typeof config === 'function' ? config(server.shared) : config);
  await server.start();
  server.token = (await readFile(join(server.folder, 'token'), 'utf8')).trim();
  return server;
}

class Server {
  url = null; // unchanged by a restart
  #process = null;

  constructor(base) { [this.base, this.shared, this.folder] = [base, join(base, 'shared'), join(base, 'data')]; }

  async start() {
    const listen = this.url ? new URL(this.url).host : `127.0.0.1:${await ownPort()}`;
    this.#process = spawn(binary, ['serve', '--data', this.folder, '--listen', listen], { stdio: ['ignore', 'ignore', 'pipe'] });
    let output = '';
    this.#process.stderr.setEncoding('utf8');
    this.url = await new Promise((resolve, reject) => {
      this.#process.stderr.on('data', (piece) => {
        output += piece;
        const listening = /listening on (http:\S+?),? /.exec(output);
        if (listening) resolve(listening[1]);
      });
      this.#process.once('exit', () => reject(new Error(`the server ended: ${output}`)));
    });
  }

  get pid() { return this.#process.pid; }

  /** Kills the server with SIGKILL. */
  async kill() {
    const gone = once(this.#process, 'exit');
    this.#process.kill('SIGKILL');
    await gone;
  }

  /** Runs a command on this server's data folder and returns its output. */
  async command(...args) {
    const child = spawn(binary, [...args, '--data', this.folder], { stdio: ['ignore', 'pipe', 'pipe'] });
    let out = '';
    let errors = '';
    child.stdout.setEncoding('utf8').on('data', (piece) => { out += piece; });
    child.stderr.setEncoding('utf8').on('data', (piece) => { errors += piece; });
    const [code] = await once(child, 'close');
    if (code !== 0) throw new Error(`mailroom ${args.join(' ')}: exit code ${code}: ${errors}`);
    return out;
  }

  async close() {
    if (this.#process.exitCode === null && this.#process.signalCode === null) await this.kill();
    await rm(this.base, { recursive: true });
  }
}
