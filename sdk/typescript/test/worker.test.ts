/** Workers in this process, on a real server: payloads, outcomes, retries, directives. */

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

async function all<T>(items: AsyncIterable<T>): Promise<T[]> {
  const found: T[] = [];
  for await (const one of items) found.push(one);
  return found;
}

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

  test("output is followed, and starts over after a failure", async (t) => {
    const { client } = await server(t);
    const story = defineJob<string[], number>("story", { retry: { strategy: "constant", initialDelay: "10ms", jitter: 0, maxAttempts: 3 } });
    await using worker = client.worker({ logger: quiet });
    worker.on(story, async (words, cx) => {
      await cx.step("plan", () => void cx.stream({ plan: words.length }));
      // Not awaited: more than fits into one request waits, and is not lost.
      for (const word of words) void cx.stream(word);
      if (cx.job.attempt === 1) throw new Error("once");
      await assert.rejects(cx.stream("x".repeat(65_535)), /the limit is 65536/);
      return words.length;
    });
    await worker.start();
    const words = Array.from({ length: 2500 }, (_, number) => `wörd ${number}`);
    const handle = await client.submit(story, words);
    const chunks = await all(handle.stream());
    assert.equal(await handle.result({ timeout: "60s" }), words.length);
    assert.deepEqual(chunks.map(({ number }) => number), chunks.map((_, index) => index + 1));
    const of = (attempt: number) => chunks.filter((one) => one.attempt === attempt).map(({ chunk }) => chunk);
    assert.deepEqual(of(1), [{ plan: words.length }, ...words]);
    assert.deepEqual(of(2), words);
    assert.deepEqual(chunks.filter(({ restart }) => restart).map(({ attempt }) => attempt), [2]);
    assert.deepEqual(await all(handle.stream({ after: chunks.length - 1 })), chunks.slice(-1));
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

  test("errors decide how the job continues", async (t) => {
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
    await until("it was stopped", () => reasons.length === 2);
    assert.equal((await suspended.get()).state, "suspended");
    await suspended.resume();
    assert.equal(await suspended.result({ timeout: "60s" }), "attempt 2");
    const late = await begin("c", { timeouts: { execution: "300ms" }, retry: { maxAttempts: 1 } });
    await assert.rejects(late.result({ timeout: "60s" }), isFailed("dead_letter", { category: "timeout" }));
    await until("it was stopped", () => reasons.length === 3);
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

  test("a key makes a repeated submission safe", async (t) => {
    const { client } = await server(t);
    const job = defineJob<number>("keyed");
    const first = await client.submit(job, 1, { key: "k" });
    const second = await client.submit(job, 1, { key: "k" });
    assert.equal(second.id, first.id);
    assert.equal(second.submitted?.duplicate, true);
    await assert.rejects(first.result({ timeout: "20ms" }), ResultTimeout);
  });

  test("a job that requires a version runs on workers of that version", async (t) => {
    const { client } = await server(t);
    const job = defineJob<null, string>("versioned");
    await using before = client.worker({ logger: quiet, version: "1" });
    before.on(job, () => "1");
    await before.start();
    const newer = await client.submit(job, null, { requiresVersion: "2" });
    // It is claimed after the other one, if at all.
    assert.equal(await (await client.submit(job, null)).result({ timeout: "60s" }), "1");
    assert.equal((await newer.get()).state, "scheduled");
    await using after = client.worker({ logger: quiet, version: "2" });
    after.on(job, () => "2");
    await after.start();
    assert.equal(await newer.result({ timeout: "60s" }), "2");
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

  test("events of a final job are given up to its end, whatever came before", async (t) => {
    const { client } = await server(t);
    const job = defineJob("prioritised");
    const handle = await client.submit(job, null, { delay: "1h" });
    await client.http.ask({ method: "POST", path: `/jobs/${handle.id}/priority`, body: '{"value": 80}' });
    await handle.cancel();
    const names: string[] = [];
    for await (const { event } of handle.events({ after: 0 })) names.push(event);
    assert.deepEqual(names.slice(-2), ["job.ops.priority_updated", "job.lifecycle.cancelled"]);
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
});
