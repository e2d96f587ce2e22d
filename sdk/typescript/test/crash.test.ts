/** Worker processes that are killed, and servers that are restarted, while durable jobs run. */

import assert from "node:assert/strict";
import { describe, test } from "node:test";

import { Windlass, defineJob } from "../src/index.js";
import { WorkerProcess, server, until } from "./support/support.js";

const order = defineJob<{ number: number }, string>("order");
const points = ["start", "in reserve", "after reserve", "after sleep", "after children", "after signal", "in send", "end"];

describe("crashes", { concurrency: 4 }, () => {
  for (const point of points) {
    test(`a job ends well although its worker is killed at "${point}"`, async (t) => {
      const { client, server: served } = await server(t);
      const first = WorkerProcess.start(t, served.url, { CRASH_AT: point });
      await first.prints("ready");
      const handle = await client.submit(order, { number: 7 }, { timeouts: { lease: "4s" } });
      await handle.signal("paid", 5);
      await first.prints(point);
      await until("the worker is dead", () => first.child.signalCode === "SIGKILL");
      const second = WorkerProcess.start(t, served.url);
      assert.equal(await handle.result({ timeout: "60s" }), "70 100+200 5");
      const job = await handle.get();
      assert.equal(job.crashes, 1);
      const lines = [...first.lines, ...second.lines];
      const times = (line: string) => lines.filter((one) => one === line).length;
      // What was saved did not run again; what was not did.
      assert.equal(times("in reserve"), point === "in reserve" ? 2 : 1, "reserve");
      assert.equal(times("in send"), point === "in send" ? 2 : 1, "send");
    });
  }

  test("a worker continues when its server is killed and started again", async (t) => {
    const { client, server: served } = await server(t);
    const worker = WorkerProcess.start(t, served.url);
    await worker.prints("ready");
    const handle = await client.submit(order, { number: 3 });
    await until("it waits for the signal", async () => (await handle.get()).why?.code === "waiting" && worker.lines.includes("after children"));
    await served.kill();
    const again = await served.restart();
    t.after(() => again.kill());
    await handle.signal("paid", 1);
    assert.equal(await handle.result({ timeout: "60s" }), "30 100+200 1");
    const another = await client.submit(order, { number: 4 });
    await another.signal("paid", 2);
    assert.equal(await another.result({ timeout: "60s" }), "40 100+200 2");
  });

  test("SIGTERM lets a worker finish, and it deregisters", async (t) => {
    const { client, server: served } = await server(t);
    const worker = WorkerProcess.start(t, served.url);
    await worker.prints("ready");
    const workers = async () => {
      const answer = await client.http.ask<{ workers: { name: string }[] }>({ method: "GET", path: "/workers" });
      return answer.workers.filter(({ name }) => name === "test").length;
    };
    await until("it is registered", async () => (await workers()) === 1);
    assert.equal(await worker.kill("SIGTERM"), 0);
    assert.ok(worker.lines.includes("stopped"));
    assert.equal(await workers(), 0);
  });

  test("a handler that blocks the event loop keeps its lease", async (t) => {
    const { client, server: served } = await server(t);
    const worker = WorkerProcess.start(t, served.url);
    await worker.prints("ready");
    const block = defineJob<{ ms: number }, string>("block");
    // Longer than the lease: only heartbeats from a thread keep it.
    const handle = await new Windlass({ url: served.url }).submit(block, { ms: 13_000 }, { timeouts: { lease: "11s" } });
    assert.equal(await handle.result({ timeout: "60s" }), "done");
    const job = await client.handle(block, handle.id).get();
    assert.deepEqual([job.attempt, job.crashes], [1, 0]);
    assert.equal(worker.errors, "");
  });
});
