// A server of ntfy's protocol, for tests.

import { createServer } from 'node:http';

/** Starts a server that keeps what is published as JSON (https://docs.ntfy.sh/publish/#publish-as-json). */
export async function ntfy(t) {
  const taken = [];
  const all = [];
  const waiting = [];
  const server = createServer(async (request, response) => {
    let body = '';
    for await (const piece of request) body += piece;
    const message = JSON.parse(body);
    all.push(message);
    response.setHeader('Content-Type', 'application/json');
    response.end(JSON.stringify({ id: `m${all.length}`, time: 0, event: 'message', topic: message.topic, message: message.message }));
    const next = waiting.shift();
    if (next) next(message);
    else taken.push(message);
  });
  await new Promise((ready) => { server.listen(0, '127.0.0.1', ready); });
  t.after(() => new Promise((closed) => { server.close(closed); server.closeAllConnections(); }));
  return {
    url: `http://127.0.0.1:${server.address().port}`,
    all, // messages that were published
    /** The next message that was published. */
    next: () => (taken.length ? taken.shift() : new Promise((resolve) => { waiting.push(resolve); })),
  };
}
