/**
 * Runs on Node, Bun or Deno, in a project with the package: submits jobs and works on them, with steps, a sleep, a signal,
 * children, output and a handler that blocks the event loop for longer than its lease lasts.
 */

import assert from "node:assert/strict";

import { JobFailed, Permanent, Windlass, defineJob } from "@windlass/sdk";
import { TestServer } from "@windlass/sdk/testing";

const LEASE_MS = 3000;

const order = defineJob("order");
const pack = defineJob("pack");
const block = defineJob("block", { timeouts: { lease: `${LEASE_MS}ms` }, retry: { maxAttempts: 1 } });
const broken = defineJob("broken");

const logged = [];
const log = (line) => void logged.push(line);
const logger = { info: () => {}, warn: log, error: log };

const server = await TestServer.start();
const client = new Windlass({ url: server.url });
const ran = [];
let isFirst = true;
const worker = client
  .worker({ logger })
  .on(order, async ({ id }, cx) => {
    const seat = await cx.step("reserve", () => {
      ran.push("reserve");
      void cx.stream("reserved");
      return { seat: id * 10 };
    });
    await cx.sleep("20ms");
    const packed = await cx.all([pack.child(1), pack.child(2)]);
    const paid = await cx.waitSignal("paid");
    if (isFirst) {
      isFirst = false;
      throw new Error("once");
    }
    return { ...seat, packed, paid };
  })
  .on(pack, (number) => number * 100)
  .on(block, (_, cx) => {
    // The event loop answers nothing for longer than a lease; the thread of heartbeats keeps the job.
    const end = Date.now() + 2 * LEASE_MS;
    while (Date.now() < end);
    return cx.job.attempt;
  })
  .on(broken, () => {
    throw new Permanent("no", { code: "no" });
  });
try {
  await worker.start();

  const handle = await client.submit(order, { id: 7 }, { retry: { initialDelay: "10ms" } });
  await handle.signal("paid", { cents: 500 });
  assert.deepEqual(await handle.result({ timeout: "60s" }), { seat: 70, packed: [100, 200], paid: { cents: 500 } });
  assert.deepEqual(ran, ["reserve"], "the step ran once");
  const output = [];
  for await (const { chunk } of handle.stream()) output.push(chunk);
  assert.deepEqual(output, ["reserved"]);

  const blocked = await client.submit(block, null);
  assert.equal(await blocked.result({ timeout: "60s" }), 1, "the lease was kept in the first attempt");
  assert.equal((await blocked.get()).crashes, 0);

  const failed = await client.submit(broken, null);
  await assert.rejects(failed.result({ timeout: "60s" }), (error) => error instanceof JobFailed && error.error?.code === "no");

  await worker.stop();
  assert.deepEqual(logged.filter((line) => line.includes("heartbeats")), [], "heartbeats had a thread");
} finally {
  await server.kill();
}
const name = globalThis.Bun ? `Bun ${globalThis.Bun.version}` : globalThis.Deno ? `Deno ${globalThis.Deno.version.deno}` : `Node ${process.version}`;
console.log(`${name}: jobs were submitted, run and kept`);
