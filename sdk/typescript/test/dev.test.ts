/** The test kit: months in milliseconds, and workers that crash between two steps. */

import assert from "node:assert/strict";
import { type TestContext, describe, test } from "node:test";

import { Windlass, defineJob } from "../src/index.js";
import { DevServer } from "../src/testing/index.js";
import { deferred, quiet, until } from "./support/support.js";

async function start(t: TestContext): Promise<DevServer> {
  const dev = await DevServer.start();
  t.after(() => dev.close());
  return dev;
}

const remind = defineJob<number, string[]>("remind", { timeouts: { lifetime: "90d" } });
const DAY_MS = 86_400_000;

describe("virtual time", { concurrency: 4 }, () => {
  test("a job sleeps for a month at once", async (t) => {
    const dev = await start(t);
    const ran: string[] = [];
    const note = (line: string) => {
      ran.push(line);
      return line;
    };
    await using worker = dev.client.worker({ logger: quiet });
    worker.on(remind, async (days, cx) => {
      const first = await cx.step("first", () => note("first"));
      await cx.sleep(`${days}d`);
      return [first, await cx.step("second", () => note("second"))];
    });
    await worker.start();
    const began = await dev.now();
    const handle = await dev.client.submit(remind, 30);
    await until("it waits", async () => (await handle.get()).state === "waiting");
    assert.ok(await dev.advance("29d"));
    assert.equal((await handle.get()).state, "waiting");
    assert.ok(await dev.advance("1d"));
    assert.deepEqual(await handle.result({ timeout: "10s" }), ["first", "second"]);
    assert.deepEqual(ran, ["first", "second"]);
    assert.equal((await dev.now()).getTime() - began.getTime(), 30 * DAY_MS);
  });

  test("a worker that crashes between two steps loses nothing", async (t) => {
    const dev = await start(t);
    const ran: string[] = [];
    await using worker = dev.client.worker({ logger: quiet });
    worker.on(remind, async (_, cx) => {
      await cx.step("first", () => void ran.push("first"));
      await cx.step("second", () => void ran.push("second"));
      return ran;
    });
    await worker.start();
    await dev.crash({ afterStep: "first" });
    const handle = await dev.client.submit(remind, 1);
    await until("it crashed", async () => (await handle.get()).crashes === 1);
    assert.deepEqual(ran, ["first"]);
    await dev.advance("1h");
    assert.deepEqual(await handle.result({ timeout: "10s" }), ["first", "second"]);
  });

  test("a worker on a busy machine has time to take what is ready", async (t) => {
    const dev = await start(t);
    const gaveUp = deferred();
    const { fetch: send } = globalThis;
    t.mock.method(globalThis, "fetch", async (input: string, init?: RequestInit) => {
      const answer = await send(input, init);
      if (input === `${dev.url}/dev/advance`) gaveUp.resolve();
      return answer;
    });
    // It asks for jobs only after the server has given up.
    const slow: typeof fetch = async (input, init) => {
      if (String(input).endsWith("/claims")) await gaveUp.promise;
      return await send(input, init);
    };
    await using worker = new Windlass({ url: dev.url, clock: "stopped", fetch: slow }).worker({ logger: quiet });
    worker.on(remind, () => ["done"]);
    await worker.start();
    const handle = await dev.client.submit(remind, 1);
    assert.ok(await dev.advance(0, { wait: "60s" }));
    assert.equal((await handle.get()).state, "completed");
    const unclaimed = await dev.client.submit(defineJob("unclaimed"), 1);
    assert.equal(await dev.settle(), false, "what no worker takes is not waited for");
    assert.equal((await unclaimed.get()).why?.code, "no_worker");
  });

  test("follow-ups are submitted with the completion, and a refused one fails the attempt", async (t) => {
    const dev = await start(t);
    const chain = defineJob<number, number>("chain");
    const taken = defineJob<null, null>("taken", { retry: { maxAttempts: 1 } });
    const ran: number[] = [];
    await using worker = dev.client.worker({ logger: quiet });
    worker.on(chain, (length, cx) => {
      ran.push(length);
      if (length > 1) cx.submitOnCompletion(chain.child(length - 1));
      return length;
    });
    worker.on(taken, (_, cx) => {
      cx.submitOnCompletion(chain.child(1, { uniqueKey: "k" }), chain.child(1, { uniqueKey: "k" }));
      return null;
    });
    await worker.start();
    await dev.client.submit(chain, 3);
    await until("all have run", async () => ran.length === 3);
    assert.deepEqual(ran, [3, 2, 1]);
    await dev.client.submit(chain, 0, { uniqueKey: "k", delay: "1h" });
    const handle = await dev.client.submit(taken, null);
    await until("it failed", async () => (await handle.get()).state === "dead_letter");
    assert.equal((await handle.get()).error?.code, "unique_key_taken");
    await dev.reset();
    const jobs = (await (await fetch(`${dev.url}/api/v1/jobs`)).json()) as { jobs: unknown[] };
    assert.deepEqual(jobs.jobs, []);
  });
});
