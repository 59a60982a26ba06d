// Ports for servers that tests kill and start again.

import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { createServer } from 'node:net';

const MOST = 12_000; // ports to choose from

/** The first port that the system gives to a program that names none, as all outgoing connections do. */
async function firstGiven() {
  const text = await readFile('/proc/sys/net/ipv4/ip_local_port_range', 'utf8').catch(() => '32768');
  return Number(text.trim().split(/\s+/)[0]);
}

/**
 * A free port of 127.0.0.1 that the system gives to no other program by itself, also while the server that listens there is
 * down. A port that the system has given may belong to another program by then, on a busy machine.
 */
export async function ownPort() {
  const first = await firstGiven();
  for (;;) {
    const port = first - 1 - Math.floor(Math.random() * Math.min(MOST, first - 1_025));
    const probe = createServer().listen(port, '127.0.0.1');
    const free = await once(probe, 'listening').then(() => true, () => false);
    probe.close();
    if (free) return port;
  }
}
