/** The life of a worker on a real server: registration, claims, pauses, keys, shutdown. */

import assert from "node:assert/strict";
import { createServer } from "node:http";
import { describe, test } from "node:test";

import { Windlass, defineJob } from "../src/index.js";
import { TestServer } from "../src/testing/index.js";
import { deferred, quiet, server } from "./support/support.js";

describe("lifecycle", { concurrency: 8 }, () => {
  test("no more jobs are claimed than slots are free, and outcomes share requests", async (t) => {
    const { client } = await server(t);
    const job = defineJob<number, number>("slots");
    let most = 0;
    let running = 0;
    const [claims, outcomes] = [[] as number[], [] as number[]];
    const counting: typeof fetch = async (input, init) => {
      const body = typeof init?.body === "string" ? (JSON.parse(init.body) as { limit?: number; outcomes?: unknown[] }) : {};
      if (String(input).endsWith("/claims")) claims.push(body.limit ?? 1);
      if (String(input).endsWith("/outcomes")) outcomes.push(body.outcomes!.length);
      return await fetch(input, init);
    };
    const counted = new Windlass({ url: client.http.url, fetch: counting });
    await client.submitAll(Array.from({ length: 60 }, (_, index) => job.child(index)));
    const all = deferred();
    let done = 0;
    await using worker = counted.worker({ logger: quiet, concurrency: 7 });
    worker.on(job, async (n) => {
      running += 1;
      most = Math.max(most, running);
      await new Promise((resolve) => setImmediate(resolve));
      running -= 1;
      done += 1;
      if (done === 60) all.resolve();
      return n;
    });
    await worker.start();
    await all.promise;
    await worker.stop();
    assert.ok(most <= 7 && Math.max(...claims) <= 7, `${most} ran, claims ${claims}`);
    assert.equal(outcomes.reduce((a, b) => a + b, 0), 60);
    assert.ok(outcomes.length < 60, `${outcomes}`);
  });

  test("a worker that stops gives its jobs back", async (t) => {
    const { client } = await server(t);
    const job = defineJob<null, number>("given.back");
    const begun = deferred();
    const worker = client.worker({ logger: quiet, drain: 0, grace: "50ms" }).on(job, async (_, cx) => {
      begun.resolve();
      await new Promise(() => {});
      return cx.job.attempt;
    });
    await worker.start();
    const handle = await client.submit(job, null);
    await begun.promise;
    assert.deepEqual(await worker.stop(), { released: 1 });
    await using second = client.worker({ logger: quiet });
    second.on(job, (_, cx) => cx.job.attempt * 100 + cx.job.failures);
    await second.start();
    assert.equal(await handle.result({ timeout: "60s" }), 200);
  });

  test("an outcome that was delivered twice counts once, and one of a lost lease not at all", async (t) => {
    const { client } = await server(t);
    const job = defineJob<null, string>("twice");
    let isFirst = true;
    const twice: typeof fetch = async (input, init) => {
      if (!String(input).endsWith("/outcomes") || !isFirst) return await fetch(input, init);
      isFirst = false;
      await (await fetch(input, init)).text();
      throw new TypeError("fetch failed", { cause: new Error("the answer was lost") });
    };
    await using worker = new Windlass({ url: client.http.url, fetch: twice }).worker({ logger: quiet });
    let runs = 0;
    worker.on(job, () => {
      runs += 1;
      return `run ${runs}`;
    });
    await worker.start();
    const handle = await client.submit(job, null);
    assert.equal(await handle.result({ timeout: "60s" }), "run 1");
    assert.equal(await (await client.submit(job, null)).result({ timeout: "60s" }), "run 2");
    assert.equal((await handle.get()).attempt, 1);
  });

  test("a paused worker gets no jobs, and continues when it is resumed", async (t) => {
    const { client } = await server(t);
    const job = defineJob<number, number>("paused");
    await using worker = client.worker({ logger: quiet, name: "pausable" });
    worker.on(job, (n) => n);
    await worker.start();
    type Listed = { workers: { id: string; name: string }[] };
    const listed = await client.http.ask<Listed>({ method: "GET", path: "/workers" });
    const id = listed.workers.find(({ name }) => name === "pausable")!.id;
    await client.http.ask({ method: "POST", path: `/workers/${id}/pause`, body: "{}" });
    const handle = await client.submit(job, 5);
    assert.equal((await handle.get()).state, "scheduled");
    await client.http.ask({ method: "POST", path: `/workers/${id}/resume`, body: "{}" });
    assert.equal(await handle.result({ timeout: "60s" }), 5);
  });

  test("a worker that its server has forgotten registers again, and its jobs are lost", async (t) => {
    const first = await TestServer.start();
    t.after(() => first.kill());
    const client = new Windlass({ url: first.url });
    const job = defineJob<number, number>("forgotten");
    const [begun, cancelled] = [deferred(), deferred<string | undefined>()];
    await using worker = client.worker({ logger: quiet });
    worker.on(job, async (n, cx) => {
      if (n > 0) return n;
      cx.abortSignal.addEventListener("abort", () => setImmediate(() => cancelled.resolve(cx.cancelReason)));
      begun.resolve();
      await cancelled.promise;
      return n;
    });
    await worker.start();
    await client.submit(job, 0);
    await begun.promise;
    await first.kill();
    const second = await first.restart();
    t.after(() => second.kill());
    assert.equal(await (await client.submit(job, 7)).result({ timeout: "60s" }), 7);
    assert.equal(await cancelled.promise, "lost");
  });

  test("an answer that never ends is given up, and a worker that cannot reach its server stops at once", async (t) => {
    const stuck = createServer((_, response) => {
      response.writeHead(200, { "content-type": "application/json" });
      response.write("{");
    });
    await new Promise<void>((resolve) => stuck.listen(0, "127.0.0.1", resolve));
    t.after(() => {
      stuck.closeAllConnections();
      stuck.close();
    });
    const { port } = stuck.address() as { port: number };
    const client = new Windlass({ url: `http://127.0.0.1:${port}`, patienceMs: 0 });
    const call = { method: "GET", path: "/jobs", waitMs: -34_900 } as const;
    await assert.rejects(client.http.ask(call), { name: "Unreachable" });
    const worker = client.worker({ logger: quiet }).on(defineJob("x"), () => null);
    const running = worker.run();
    await worker.stop();
    // As it was asked, so that this is no error.
    await running;
    await assert.rejects(worker.run(), /was stopped/);
  });

  test("a worker without a valid key ends with the error", async (t) => {
    const { client } = await server(t);
    const body = JSON.stringify({ name: "admin", role: "admin" });
    const { secret } = await client.http.ask<{ secret: string }>({ method: "POST", path: "/keys", body });
    const admin = new Windlass({ url: client.http.url, key: secret });
    const viewer = await admin.http.ask<{ secret: string }>({ method: "POST", path: "/keys", body: JSON.stringify({ name: "v", role: "viewer", tenant: "default" }) });
    const worker = new Windlass({ url: client.http.url, key: viewer.secret }).worker({ logger: quiet }).on(defineJob("x"), () => null);
    await assert.rejects(worker.run(), { name: "ApiError", status: 403 });
    const workerKey = JSON.stringify({ name: "w", role: "worker", tenant: "default" });
    const key = await admin.http.ask<{ id: string; secret: string }>({ method: "POST", path: "/keys", body: workerKey });
    const revoked = new Windlass({ url: client.http.url, key: key.secret }).worker({ logger: quiet }).on(defineJob("y"), () => null);
    await revoked.start();
    const running = assert.rejects(revoked.run(), { name: "ApiError", status: 401 });
    await admin.http.ask({ method: "DELETE", path: `/keys/${key.id}` });
    await running;
    const own = admin.worker({ logger: quiet }).on(defineJob<number, number>("x"), (n) => n);
    await using working = own;
    await working.start();
    assert.equal(await (await admin.submit(defineJob<number, number>("x"), 4)).result({ timeout: "60s" }), 4);
  });
});
