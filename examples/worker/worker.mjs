// A worker in JavaScript, with nothing but Node's standard library. It serves the
// agent "js": streams a greeting, asks whether it may shout, and shouts if that
// is approved.
//
//   MAILROOM_URL=http://127.0.0.1:8420 MAILROOM_TOKEN=… node worker.mjs
//
// What a worker has to do, in any language:
//
// - register (a claim with max 0), and then claim, round by round, growing; an
//   answer that did not come is asked for again under the same round;
// - renew every few seconds, naming the last round that was answered and all
//   claims that it holds; what comes back as lost must not be worked on any more;
// - write under the claim: deltas, entries (steps, numbered from run.steps + 1),
//   and in the end settle; what was not answered is repeated as it was;
// - stop soon when an answer says stop: a renewal does, also while the agent is silent;
// - end an attempt that has lasted for deadline_ms, and settle it as failed; a worker
//   that does not loses the claim a little later, and with it what it has not written.

import { setTimeout as sleep } from "node:timers/promises";

const { MAILROOM_URL: url, MAILROOM_TOKEN: token } = process.env;

class LeaseLost extends Error {} // nothing more can be written under the claim
class Stopped extends Error {} // the run was asked to stop
class Overdue extends Error {} // the attempt has lasted for its deadline_ms

const longest = 2 ** 31 - 1; // ms; a longer timer of JavaScript fires at once

// call sends a request until it is answered.
async function call(path, body) {
  for (;;) {
    let answer;
    try {
      answer = await fetch(url + path, {
        method: "POST",
        headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
        body: JSON.stringify(body),
        signal: AbortSignal.timeout(90_000),
      });
      if (answer.ok) return answer.status === 204 ? null : await answer.json();
    } catch {
      await sleep(200); // it may have arrived: the server recognizes a repeat
      continue;
    }
    const problem = await answer.json().catch(() => ({}));
    if (problem.code === "lease_lost") throw new LeaseLost(problem.detail);
    if (![429, 502, 503, 504].includes(answer.status)) throw new Error(problem.detail ?? answer.statusText);
    await sleep(1000 * Number(answer.headers.get("retry-after") ?? 1));
  }
}

class Worker {
  held = new Map(); // sessions by claim
  round = 0; // the last one that was answered

  async serve(agent, handle) {
    const first = await call("/v1/claims", { agents: [agent], max: 0, pid: process.pid });
    this.id = first.worker;
    setInterval(() => this.renew().catch(fail), first.lease_ms / 6);
    console.log("serving", agent, "as worker", this.id);
    for (;;) {
      const { claims } = await call("/v1/claims", { worker: this.id, round: this.round + 1, wait: "20s" });
      this.round++;
      for (const claim of claims) {
        const session = new Session(claim);
        this.held.set(claim.claim, session);
        try {
          await session.run(handle);
        } catch (err) {
          if (!(err instanceof LeaseLost)) throw err;
          console.log("lost:", err.message);
        }
        this.held.delete(claim.claim);
      }
    }
  }

  async renew() {
    const held = [...this.held.keys()];
    const { lost, stop } = await call(`/v1/workers/${this.id}/renew`, { round: this.round, held });
    for (const { claim, reason } of stop) this.held.get(claim)?.end(new Stopped(reason));
    for (const claim of lost) {
      this.held.get(claim)?.end(new LeaseLost("the claim was taken away"));
      this.held.delete(claim);
    }
  }
}

// Session is one attempt of one run. Its signal aborts when the attempt has to end: give it
// to everything that waits, such as the call of a model.
class Session {
  text = "";
  #ending = new AbortController();

  constructor(claim) {
    this.claim = claim;
    this.path = "/v1/claims/" + claim.claim;
    this.number = claim.run.steps + 1;
    this.said = claim.messages.map((m) => m.text).join("\n");
    this.signal = this.#ending.signal;
  }

  end(why) {
    this.#ending.abort(why);
  }

  // run handles the attempt and settles it, whatever happens to the handler.
  async run(handle) {
    const { deadline_ms } = this.claim; // an older server sends none
    const late = new Overdue(`the attempt took longer than ${deadline_ms} ms`);
    const timer = deadline_ms && setTimeout(() => this.end(late), Math.min(deadline_ms, longest));
    try {
      await handle(this);
    } catch (err) {
      const why = this.signal.aborted ? this.signal.reason : err; // an aborted wait throws an AbortError
      if (why instanceof LeaseLost) throw why;
      if (why instanceof Stopped) {
        await this.settle("release"); // what was streamed is kept, and the run ends cancelled
      } else {
        await this.settle("fail", { failure: { message: why.message } }); // the server retries the run
      }
    } finally {
      clearTimeout(timer);
    }
  }

  ticket(name) {
    return this.claim.tickets.find((t) => t.name === name);
  }

  async stream(text) {
    this.signal.throwIfAborted();
    const offset = Buffer.byteLength(this.text);
    this.text += text;
    const { stop } = await call(this.path + "/deltas", { offset, text });
    if (stop) throw new Stopped(stop);
  }

  async step(name) {
    this.signal.throwIfAborted();
    const message = this.text ? { text: this.text } : undefined;
    await call(this.path + "/entries", { number: this.number++, step: { name }, message });
    this.text = "";
  }

  settle(outcome, more) {
    return call(this.path + "/settle", { number: this.number, outcome, text: this.text || undefined, ...more });
  }
}

async function shout(session) {
  const asked = session.ticket("shout");
  if (!asked) {
    await session.stream("You said ");
    for (const word of session.said.split(/(?<= )/)) {
      await session.stream(word);
      await sleep(20, null, { signal: session.signal }); // as a model writes
    }
    await session.stream(".");
    await session.step("greeted");
    const ask = { name: "shout", kind: "approval", prompt: "May I shout?", action: "shout" };
    await session.settle("wait", { wait: { names: ["shout"] }, tickets: [ask] });
  } else if (asked.decision === "approve") {
    await session.stream(session.said.toUpperCase());
    await session.settle("complete");
  } else {
    await session.settle("complete", { text: "Then I am quiet." });
  }
}

// fail ends the process. A supervisor restarts it as a new worker.
function fail(err) {
  console.error(err.message);
  process.exit(1);
}

new Worker().serve("js", shout).catch(fail);
