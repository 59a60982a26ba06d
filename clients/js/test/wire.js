// A TCP proxy in front of a server, which can lose an answer.

import { once } from 'node:events';
import { connect, createServer } from 'node:net';

/**
 * Starts a proxy. cut(pattern) lets the next request that matches through to the server and closes the connection in
 * place of its answer; the promise that it returns resolves then.
 */
export async function wire(t, target) {
  const { hostname, port } = new URL(target);
  const losing = new Set();
  const sockets = new Set();
  const proxy = createServer((near) => {
    const far = connect(port, hostname);
    let lost = null;
    for (const socket of [near, far]) {
      sockets.add(socket);
      socket.on('error', () => {}).on('close', () => { sockets.delete(socket); near.destroy(); far.destroy(); });
    }
    near.on('data', (bytes) => {
      lost ??= [...losing].find(({ pattern }) => pattern.test(bytes.toString('latin1'))) ?? null;
      losing.delete(lost);
      far.write(bytes);
    });
    far.on('data', (bytes) => {
      if (!lost) return near.write(bytes);
      lost.resolve(bytes.toString());
      lost = null;
      return near.destroy();
    });
  });
  proxy.listen(0, '127.0.0.1');
  await once(proxy, 'listening');
  t.after(() => {
    proxy.close();
    for (const socket of sockets) socket.destroy();
  });
  return {
    url: `http://127.0.0.1:${proxy.address().port}`,
    cut: (pattern) => new Promise((resolve) => { losing.add({ pattern, resolve }); }),
  };
}
