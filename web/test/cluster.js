// A private PostgreSQL cluster, for tests.

import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

const binary = fileURLToPath(new URL('../../bin/fakes', import.meta.url));

/** Starts a cluster, which ends with the test. */
export async function startCluster(t) {
  if (!existsSync(binary)) throw new Error('bin/fakes is missing: run make pages');
  const child = spawn(binary, ['postgres'], { stdio: ['pipe', 'pipe', 'inherit'] });
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const cluster = new Cluster(child, lines);
  t.after(() => cluster.close());
  cluster.url = await cluster.line();
  return cluster;
}

class Cluster {
  #child;
  #lines;

  constructor(child, lines) { [this.#child, this.#lines] = [child, lines]; }

  async line() {
    const { value, done } = await this.#lines.next();
    if (done) throw new Error('the cluster ended');
    return value;
  }

  async #command(line) {
    this.#child.stdin.write(`${line}\n`);
    const answer = await this.line();
    if (answer !== 'ok') throw new Error(`${line}: ${answer}`);
  }

  /** Kills the server with SIGKILL. */
  kill() { return this.#command('kill'); }

  /** Starts the server again. */
  restart() { return this.#command('restart'); }

  /** Ends the connections with this application_name. */
  terminate(name) { return this.#command(`terminate ${name}`); }

  async close() {
    this.#child.stdin.end();
    for await (const _ of this.#lines);
  }
}
