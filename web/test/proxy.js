// A reverse proxy that serves a server below a path prefix.

import { createServer, request } from 'node:http';
import { connect } from 'node:net';
import { once } from 'node:events';

/** Starts it; the test's end stops it. Returns the URL below which the server is. */
export async function below(t, url, prefix) {
  const { hostname, port } = new URL(url);
  const inner = (path) => (path.startsWith(`${prefix}/`) ? path.slice(prefix.length) : null);
  const proxy = createServer((from, to) => {
    const path = inner(from.url);
    if (path === null) return to.writeHead(404).end();
    const on = request({ hostname, port, path, method: from.method, headers: from.headers }, (answer) => {
      to.writeHead(answer.statusCode, answer.headers);
      answer.pipe(to);
    });
    on.on('error', () => to.destroy());
    from.pipe(on);
  });
  proxy.on('upgrade', (from, socket) => {
    const on = connect(port, hostname, () => {
      const headers = from.rawHeaders.reduce((lines, text, i) => lines + text + (i % 2 ? '\r\n' : ': '), '');
      on.write(`GET ${inner(from.url)} HTTP/1.1\r\n${headers}\r\n`);
      on.pipe(socket).pipe(on);
    });
    for (const end of [on, socket]) end.on('error', () => { on.destroy(); socket.destroy(); });
  });
  proxy.listen(0, '127.0.0.1');
  await once(proxy, 'listening');
  t.after(() => { proxy.closeAllConnections(); proxy.close(); });
  return `http://127.0.0.1:${proxy.address().port}${prefix}`;
}
