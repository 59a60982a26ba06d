// A real server on a temporary folder, for tests.

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const binary = fileURLToPath(new URL('../../../bin/mailroom', import.meta.url));

/**
 * Makes a data folder and a server on it, which the test's end stops. config is a mailroom.toml, or gives one for a folder
 * beside the data: the server's programs cannot see the data folder.
 */
export async function open(t, config = '') {
  if (!existsSync(binary)) throw new Error('bin/mailroom is not there: make build');
  const house = new House(await mkdtemp(join(tmpdir(), 'mailroom-js-')));
  t.after(() => house.close());
  await Promise.all([mkdir(house.shared), mkdir(house.folder, { mode: 0o700 })]);
  await writeFile(join(house.folder, 'mailroom.toml'), typeof config === 'function' ? config(house.shared) : config);
  await house.start();
  house.token = (await readFile(join(house.folder, 'token'), 'utf8')).trim();
  return house;
}

class House {
  url = null; // the same again after a restart
  #process = null;

  constructor(base) { [this.base, this.shared, this.folder] = [base, join(base, 'shared'), join(base, 'data')]; }

  async start() {
    const listen = this.url ? new URL(this.url).host : '127.0.0.1:0';
    this.#process = spawn(binary, ['serve', '--data', this.folder, '--listen', listen], { stdio: ['ignore', 'ignore', 'pipe'] });
    let said = '';
    this.#process.stderr.setEncoding('utf8');
    this.url = await new Promise((resolve, reject) => {
      this.#process.stderr.on('data', (piece) => {
        said += piece;
        const listening = /listening on (http:\S+?),? /.exec(said);
        if (listening) resolve(listening[1]);
      });
      this.#process.once('exit', () => reject(new Error(`the server ended: ${said}`)));
    });
  }

  /** SIGKILL: nothing is shut down in order. */
  async kill() {
    const gone = once(this.#process, 'exit');
    this.#process.kill('SIGKILL');
    await gone;
  }

  /** Runs a command of the client on this server's folder and returns what it prints. */
  async command(...args) {
    const child = spawn(binary, [...args, '--data', this.folder], { stdio: ['ignore', 'pipe', 'inherit'] });
    let out = '';
    child.stdout.setEncoding('utf8').on('data', (piece) => { out += piece; });
    const [code] = await once(child, 'close');
    if (code !== 0) throw new Error(`mailroom ${args.join(' ')}: exit code ${code}`);
    return out;
  }

  async close() {
    if (this.#process.exitCode === null && this.#process.signalCode === null) await this.kill();
    await rm(this.base, { recursive: true });
  }
}
