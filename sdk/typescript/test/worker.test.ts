/** Workers in this process, on a real server: outcomes, retries, directives, shutdown. */

import assert from "node:assert/strict";
import { describe, test } from "node:test";

import { Failure, JobFailed, Permanent, ResultTimeout, RetryAfter, SchemaError, Snooze, type StandardSchemaV1, defineJob } from "../src/index.js";
import { deferred, quiet, server, until } from "./support/support.js";

/** A schema as any library makes one: a number, or the text of one. */
const number: StandardSchemaV1<number | string, number> = {
  "~standard": {
    version: 1,
    vendor: "test",
    validate: (value) =>
      (typeof value === "number" || typeof value === "string") && Number.isFinite(Number(value))
        ? { value: Number(value) }
        : { issues: [{ message: "is not a number" }] },
  },
};

const isFailed = (state: string, check: { category?: string; code?: string | null; message?: RegExp }) => (error: unknown) => {
  assert.ok(error instanceof JobFailed, String(error));
  assert.equal(error.state, state);
  if (check.category !== undefined) assert.equal(error.error?.category, check.category);
  if (check.code !== undefined) assert.equal(error.error?.code ?? null, check.code);
  if (check.message !== undefined) assert.match(error.error?.message ?? "", check.message);
  return true;
};

describe("worker", { concurrency: 8 }, () => {
  test("payloads and results are any JSON, and bytes", async (t) => {
    const { client } = await server(t);
    const echo = defineJob<unknown, unknown>("echo");
    const size = defineJob<Uint8Array, number>("size");
    await using worker = client.worker({ logger: quiet });
    worker.on(echo, (payload) => payload).on(size, (bytes) => bytes.length);
    await worker.start();
    for (const value of ["naïve 😀 \u0000 привет", { a: [1.5, null, true, { "": [] }] }, 0, [], null, "\ud83d\ude00", "x".repeat(900_000)]) {
      assert.deepEqual(await (await client.submit(echo, value)).result({ timeout: "60s" }), value);
    }
    assert.equal(await (await client.submit(size, new Uint8Array(300).fill(7))).result({ timeout: "60s" }), 300);
  });

  test("values that JSON cannot hold are refused where they are made", async (t) => {
    const { client } = await server(t);
    const bad = defineJob<string, unknown>("bad");
    const values: Record<string, unknown> = { nan: Number.NaN, bigint: 1n, map: new Map(), infinite: { a: [Number.POSITIVE_INFINITY] } };
    const circle: Record<string, unknown> = {};
    circle["self"] = circle;
    values["circle"] = circle;
    await using worker = client.worker({ logger: quiet });
    worker.on(bad, (name) => (name === "undefined" ? undefined : values[name]));
    await worker.start();
    for (const name of Object.keys(values)) {
      const handle = await client.submit(bad, name);
      await assert.rejects(handle.result({ timeout: "60s" }), isFailed("failed", { category: "permanent", code: "result_unwritable" }));
    }
    assert.equal(await (await client.submit(bad, "undefined")).result({ timeout: "60s" }), null);
    await assert.rejects(client.submit(defineJob<unknown>("bad"), { n: Number.NaN }), /NaN/);
  });

  test("a result that is too large fails the job", async (t) => {
    const { client } = await server(t);
    const huge = defineJob<unknown, string>("huge");
    const small = defineJob<number, number>("small");
    await using worker = client.worker({ logger: quiet, concurrency: 20 });
    worker.on(huge, () => "x".repeat(20 << 20)).on(small, (n) => n);
    await worker.start();
    const others = await client.submitAll([1, 2, 3, 4].map((n) => small.child(n)));
    const handle = await client.submit(huge, null);
    await assert.rejects(handle.result({ timeout: "60s" }), isFailed("failed", { category: "permanent", code: "outcome_rejected" }));
    assert.deepEqual(await Promise.all(others.map((one) => one.result({ timeout: "60s" }))), [1, 2, 3, 4]);
  });

  test("schemas check and convert", async (t) => {
    const { client } = await server(t);
    const double = defineJob("double", { payload: number, result: number });
    await using worker = client.worker({ logger: quiet });
    worker.on(double, (n) => (n === 13 ? ("unlucky" as unknown as number) : n * 2));
    await worker.start();
    assert.equal(await (await client.submit(double, "21")).result({ timeout: "60s" }), 42);
    await assert.rejects(client.submit(double, "none"), SchemaError);
    const unreadable = await client.submit(defineJob<string>("double"), "none");
    await assert.rejects(unreadable.result({ timeout: "60s" }), isFailed("failed", { code: "payload_unreadable" }));
    const unlucky = await client.submit(double, 13);
    await assert.rejects(unlucky.result({ timeout: "60s" }), isFailed("failed", { code: "result_unwritable" }));
  });

  test("errors decide what becomes of the job", async (t) => {
    const { client } = await server(t);
    class Declined extends Error {}
    const fails = defineJob<string, number>("fails", { retry: { maxAttempts: 2, initialDelay: "1ms" } });
    let starts = 0;
    await using worker = client.worker({ logger: quiet, permanent: [Declined] });
    worker.on(fails, (what, cx) => {
      starts += 1;
      if (what === "twice" && cx.job.attempt === 2) return cx.job.failures;
      if (what === "permanent") throw new Permanent("never", { code: "no", cause: new Error("behind it") });
      if (what === "class") throw new Error("wrapped", { cause: new Declined("card") });
      if (what === "after" && cx.job.attempt === 1) throw new RetryAfter("1ms", "later");
      if (what === "snooze" && cx.job.attempt === 1) throw new Snooze("1ms");
      if (what === "snooze" || what === "after") return cx.job.failures;
      if (what === "text") throw "just text";
      if (what === "nothing") throw undefined;
      if (what === "object") throw { message: "an object", code: 7 };
      if (what === "resource") throw new Failure("too much", { category: "resource", code: "quota" });
      throw new Error("for now");
    });
    await worker.start();
    const ends = async (what: string) => await (await client.submit(fails, what)).result({ timeout: "60s" });
    assert.equal(await ends("twice"), 1);
    assert.equal(await ends("after"), 1);
    assert.equal(await ends("snooze"), 0);
    await assert.rejects(ends("permanent"), isFailed("failed", { category: "permanent", code: "no", message: /never/ }));
    await assert.rejects(ends("class"), isFailed("failed", { category: "permanent", message: /wrapped/ }));
    await assert.rejects(ends("text"), isFailed("dead_letter", { category: "temporary", message: /just text/ }));
    await assert.rejects(ends("nothing"), isFailed("dead_letter", { message: /undefined/ }));
    await assert.rejects(ends("object"), isFailed("dead_letter", { message: /an object/ }));
    await assert.rejects(ends("resource"), isFailed("failed", { category: "resource", code: "quota" }));
    assert.ok(starts >= 13);
  });

  test("cancel, suspend and time limits stop a handler through its signal", async (t) => {
    const { client } = await server(t);
    const waits = defineJob<string, string>("waits");
    const reasons: string[] = [];
    const started = new Map<string, () => void>();
    await using worker = client.worker({ logger: quiet, drain: 0 });
    worker.on(waits, async (name, cx) => {
      if (cx.job.attempt > 1) return `attempt ${cx.job.attempt}`;
      const stopped = new Promise((resolve) => cx.abortSignal.addEventListener("abort", resolve));
      started.get(name)?.();
      await stopped;
      reasons.push(`${name}: ${cx.cancelReason}`);
      throw cx.abortSignal.reason;
    });
    await worker.start();
    const begin = async (name: string, options = {}) => {
      const begun = deferred();
      started.set(name, begun.resolve);
      const handle = await client.submit(waits, name, options);
      await begun.promise;
      return handle;
    };
    const cancelled = await begin("a");
    await cancelled.cancel("not needed");
    await assert.rejects(cancelled.result({ timeout: "60s" }), isFailed("cancelled", {}));
    const suspended = await begin("b");
    await suspended.suspend({ mode: "aggressive" });
    await until("it was told", () => reasons.length === 2);
    assert.equal((await suspended.get()).state, "suspended");
    await suspended.resume();
    assert.equal(await suspended.result({ timeout: "60s" }), "attempt 2");
    const late = await begin("c", { timeouts: { execution: "300ms" }, retry: { maxAttempts: 1 } });
    await assert.rejects(late.result({ timeout: "60s" }), isFailed("dead_letter", { category: "timeout" }));
    await until("it was told", () => reasons.length === 3);
    assert.deepEqual(reasons, ["a: cancelled", "b: suspended", "c: timeout"]);
  });

  test("a graceful suspension lets the attempt finish", async (t) => {
    const { client } = await server(t);
    const job = defineJob<null, string>("graceful");
    const [begun, go] = [deferred(), deferred()];
    await using worker = client.worker({ logger: quiet });
    worker.on(job, async () => {
      begun.resolve();
      await go.promise;
      return "finished";
    });
    await worker.start();
    const handle = await client.submit(job, null);
    await begun.promise;
    await handle.suspend({ mode: "graceful" });
    go.resolve();
    assert.equal(await handle.result({ timeout: "60s" }), "finished");
  });

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
    const { Windlass } = await import("../src/index.js");
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
    const { Windlass } = await import("../src/index.js");
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

  test("a key makes a repeated submission safe", async (t) => {
    const { client } = await server(t);
    const job = defineJob<number>("keyed");
    const first = await client.submit(job, 1, { key: "k" });
    const second = await client.submit(job, 1, { key: "k" });
    assert.equal(second.id, first.id);
    assert.equal(second.submitted?.duplicate, true);
    await assert.rejects(first.result({ timeout: "20ms" }), ResultTimeout);
  });

  test("progress, logs, costs and events are seen", async (t) => {
    const { client } = await server(t);
    const job = defineJob<null, null>("seen");
    const go = deferred();
    await using worker = client.worker({ logger: quiet });
    worker.on(job, async (_, cx) => {
      await go.promise;
      cx.cost(12);
      cx.log("not awaited");
      await cx.log("one", "two 😀", 3 as unknown as string);
      await cx.progress(50, "half");
      return null;
    });
    await worker.start();
    const handle = await client.submit(job, null);
    const events = handle.events({ after: 0 });
    const names: string[] = [];
    go.resolve();
    for await (const { event } of events) names.push(event);
    assert.ok(names.includes("job.lifecycle.completed"), names.join());
    assert.deepEqual(await handle.logs(), ["not awaited", "one", "two 😀", "3"]);
    const shown = (await handle.get()) as unknown as { progress: unknown; cost_cents: number };
    assert.deepEqual([shown.progress, shown.cost_cents], [{ percent: 50, message: "half" }, 12]);
    const seen = [];
    for await (const progress of handle.progress()) seen.push(progress.percent);
    assert.deepEqual(seen, [50]);
  });

  test("a paused worker gets no jobs, and goes on when it is resumed", async (t) => {
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

  test("mistakes are refused at once", async (t) => {
    const { client } = await server(t);
    const job = defineJob("once");
    const worker = client.worker().on(job, () => null);
    assert.throws(() => worker.on(defineJob("once"), () => null), /already/);
    assert.throws(() => defineJob("no name"), /cannot name a job/);
    assert.throws(() => client.worker({ concurrency: 0 }), /concurrency/);
    await assert.rejects(client.worker().run(), /no handlers/);
    await worker.start();
    await worker.stop();
    await assert.rejects(worker.start(), /was stopped/);
    assert.deepEqual(await client.submitAll([]), []);
    await assert.rejects(client.submit(job, null, { delay: "soon" }), /not a duration/);
    await assert.rejects(client.submit(job, null, { queue: "no queue" }), { name: "ApiError", status: 422 });
  });

  test("an answer that never ends is given up, and a worker that cannot reach its server stops at once", async (t) => {
    const { createServer } = await import("node:http");
    const { Windlass } = await import("../src/index.js");
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
    // As it was told, so that this is no error.
    await running;
    await assert.rejects(worker.run(), /was stopped/);
  });

  test("a worker without a valid key ends with the error", async (t) => {
    const { client } = await server(t);
    const body = JSON.stringify({ name: "admin", role: "admin" });
    const { secret } = await client.http.ask<{ secret: string }>({ method: "POST", path: "/keys", body });
    const { Windlass } = await import("../src/index.js");
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
