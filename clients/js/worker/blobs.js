// The blobs of an agent in a thread. The types and what each call promises are in index.d.ts.

import { MailroomError } from '../errors.js';
import { invalid } from './errors.js';
import { bytesOf, checkSize, MiB, wellFormed } from './json.js';

const contractBlobs = 5; // of servers that have blobs
const limitBlob = 16 * MiB;
const limitName = 256; // bytes
const longest = 600_000; // ms that one try may take

export class Blobs {
  #attempt;

  constructor(attempt) { this.#attempt = attempt; }

  put(name, content) { return this.#write({ [name]: content ?? undefined }); } // upload takes null as a deletion

  delete(name) { return this.#write({ [name]: null }); }

  get(name) {
    return this.#attempt.track((async () => {
      this.#check();
      try {
        return await this.#attempt.page('blob', { name: checked(name) }, { timeout: longest });
      } catch (error) {
        if (namesNoBlob(error)) return null;
        throw error;
      }
    })());
  }

  list({ prefix, after } = {}) {
    return this.#attempt.track((async () => {
      this.#check();
      return this.#attempt.get('blobs', { prefix, after });
    })());
  }

  /** Stores contents, and returns the changes for the step that writes them. null deletes a blob. */
  async upload(blobs) {
    this.#check();
    const changes = Object.keys(blobs).map((name) => ({ name: checked(name) }));
    const contents = Object.entries(blobs).map(([name, content]) => (content === null ? null : bytes(name, content)));
    for (const [i, content] of contents.entries()) {
      if (content) changes[i].upload = (await this.#attempt.post('uploads', content, { timeout: longest })).upload;
    }
    return changes;
  }

  #write(blobs) {
    return this.#attempt.track((async () => {
      await this.#attempt.commit({ step: { record: true, blobs: await this.upload(blobs) } });
    })());
  }

  #check() {
    this.#attempt.check();
    if (!(this.#attempt.contract >= contractBlobs)) {
      throw new MailroomError('incompatible', 'the server is too old for blobs; update the server');
    }
  }
}

/** Whether an error says that there is no blob of a name. Without the field, not_found means that the claim is gone. */
export function namesNoBlob({ code, fields = [] }) {
  return code === 'not_found' && fields.some(({ location }) => location === 'query.name');
}

function checked(name) {
  if (name !== '' && !name.includes('\0') && bytesOf(wellFormed(name)) <= limitName) return wellFormed(name);
  throw invalid(`"${name.slice(0, 80)}" is no name of a blob; use 1 to ${limitName} bytes of text without NUL`);
}

function bytes(name, content) {
  const view = content instanceof ArrayBuffer ? new Uint8Array(content) : content;
  if (!(view instanceof Uint8Array)) invalidContent(name);
  checkSize(view.length, `the blob "${name}"`, limitBlob);
  return view.slice(); // the handler may change it while it is sent
}

function invalidContent(name) { throw invalid(`the blob "${name}" needs bytes: a Uint8Array or an ArrayBuffer`); }
