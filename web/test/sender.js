// A client that sends thousands of messages, for tests.

import { Agent, request } from 'node:http';

import { Mailroom } from '../../clients/js/mailroom.js';

const agent = new Agent({ keepAlive: true }); // connections that nothing uses do not keep the process

/** A POST with what the client needs of fetch. Node's fetch takes three times the processor time. */
function post(url, { headers, body, signal }) {
  return new Promise((resolve, reject) => {
    const sent = request(url, { method: 'POST', headers, signal, agent }, (answer) => {
      let text = '';
      answer.setEncoding('utf8').on('data', (piece) => { text += piece; }).on('error', reject).on('end', () => {
        const { statusCode: status } = answer;
        resolve({ status, ok: status >= 200 && status < 300, headers: new Headers(), text: async () => text });
      });
    });
    sent.on('error', reject).end(body);
  });
}

/** A client of a server. */
export function senderOf({ url, token }) {
  return new Mailroom({ url, token, fetch: (to, options) => (options.method === 'POST' ? post : fetch)(to, options) });
}
