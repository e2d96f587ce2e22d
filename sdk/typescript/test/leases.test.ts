/** Leases: how often they are renewed, and how attempts end that lost theirs or are asked to stop. */

import assert from "node:assert/strict";
import { describe, test } from "node:test";

import { type CancelReason, Windlass, defineJob } from "../src/index.js";
import { toMillis } from "../src/duration.js";
import { Attempts } from "../src/worker/attempts.js";
import type { ClaimedJob } from "../src/worker/protocol.js";
import { FakeServer, claimed } from "./support/fake_server.js";
import { deferred, quiet, server, until } from "./support/support.js";

const job = defineJob<string, string>("leased");

describe("leases", { concurrency: 4 }, () => {
  for (const heartbeatThread of [true, false]) {
    const where = heartbeatThread ? "in a thread" : "in the event loop";
    test(`the lease of an attempt that ended without an outcome is not renewed, ${where}`, async (t) => {
      const fake = await FakeServer.start(t);
      fake.stale.add("a");
      fake.toClaim.push(claimed("a", job.name));
      await using worker = fake.client.worker({ logger: quiet, heartbeatThread });
      const renewed = deferred();
      // The checkpoint is answered with 404: another worker has the job.
      worker.on(job, async (_, cx) => {
        await renewed.promise;
        return await cx.step("save", () => "x");
      });
      await worker.start();
      const isRenewed = (beat: { jobs: readonly { id: string }[] }) => beat.jobs.some(({ id }) => id === "a");
      await until("it is renewed", () => fake.beats.some(isRenewed));
      renewed.resolve();
      await until("it ended", () => worker.running === 0);
      const before = fake.beats.length;
      await until("it is renewed no more", () => fake.beats.length >= before + 5 && !fake.beats.slice(-3).some(isRenewed));
      assert.deepEqual(fake.outcomes, []);
    });
  }

  test("an attempt that is abandoned because the server does not answer is forgotten", async () => {
    const forgotten: unknown[] = [];
    const reported: unknown[] = [];
    const registrations = new Map([[job.name, { job: job as never, handler: () => new Promise(() => {}), run: {} }]]);
    const { http } = new Windlass({ url: "http://127.0.0.1:9" });
    const attempts = new Attempts(http, registrations, 1, quiet, (report) => reported.push(report), (...one) => forgotten.push(one));
    attempts.start("w", claimed("a", job.name) as unknown as ClaimedJob);
    attempts.stopAll("unreachable");
    await attempts.emptied();
    assert.deepEqual([forgotten, reported], [[["a", 1]], []]);
  });

  test("a handler that continues after its lease was lost leaves its slot, and knows why", async (t) => {
    const fake = await FakeServer.start(t);
    fake.stale.add("a");
    fake.toClaim.push(claimed("a", job.name), claimed("b", job.name));
    const reasons: (CancelReason | undefined)[] = [];
    await using worker = fake.client.worker({ logger: quiet, concurrency: 1, grace: "1ms" });
    worker.on(job, async (id, cx) => {
      if (id === "b") return id;
      cx.abortSignal.addEventListener("abort", () => reasons.push(cx.cancelReason));
      await cx.checkpoint(1).catch(() => {});
      return await new Promise(() => {});
    });
    await worker.start();
    await until("the next job ran", () => fake.outcomes.length > 0);
    assert.deepEqual([reasons, fake.outcomes.map(({ id }) => id)], [["lost"], ["b"]]);
  });

  test("a short lease is renewed at a third of its length", async (t) => {
    const fake = await FakeServer.start(t);
    fake.heartbeatEvery = "10s";
    const inMs = (ms: number) => new Date(Date.now() + ms).toISOString();
    fake.toClaim.push(claimed("long", job.name, { lease_expires_at: inMs(60_000) }), claimed("short", job.name, { lease_expires_at: inMs(3000) }));
    const end = deferred();
    await using worker = fake.client.worker({ logger: quiet });
    worker.on(job, async (id) => {
      await end.promise;
      return id;
    });
    await worker.start();
    await until("both are renewed", () => fake.beats.some(({ jobs }) => jobs.length === 2));
    end.resolve();
    for (const { jobs, wait } of fake.beats) {
      const isShort = jobs.some(({ id }) => id === "short");
      assert.ok(isShort ? toMillis(wait ?? 0) <= 500 : wait === undefined || wait === "5000ms", `${wait} for ${JSON.stringify(jobs)}`);
    }
  });

  test("a server says how long a lease lasts", async (t) => {
    const { client } = await server(t);
    const claims: { jobs: { lease_expires_at?: string }[] }[] = [];
    const listening: typeof fetch = async (input, init) => {
      const response = await fetch(input, init);
      if (String(input).endsWith("/claims")) claims.push((await response.clone().json()) as (typeof claims)[0]);
      return response;
    };
    await using worker = new Windlass({ url: client.http.url, fetch: listening }).worker({ logger: quiet });
    worker.on(job, (id) => id);
    await worker.start();
    const handle = await client.submit(job, "a", { timeouts: { lease: "2s" } });
    await handle.result({ timeout: "60s" });
    const [first] = claims.flatMap(({ jobs }) => jobs);
    const createdAt = Date.parse((await handle.get()).created_at);
    const ms = Date.parse(first!.lease_expires_at!) - createdAt;
    assert.ok(ms >= 2000 && ms < 60_000, `${ms}`);
  });

  test("an aggressive pause tells handlers to stop, and reports what they gave back", async (t) => {
    const fake = await FakeServer.start(t, () => [200, {}]);
    fake.toClaim.push(claimed("a", job.name));
    let reportsBefore: number | undefined;
    const [begun, cancelled] = [deferred(), deferred<CancelReason | undefined>()];
    await using worker = fake.client.worker({ logger: quiet, grace: "60s" });
    worker.on(job, async (_, cx) => {
      cx.abortSignal.addEventListener("abort", () => cancelled.resolve(cx.cancelReason));
      begun.resolve();
      await cancelled.promise;
      // Its own clean-up takes a while.
      for (let n = 0; n < 10; n += 1) await fake.client.http.ask({ method: "GET", path: "/jobs" });
      reportsBefore = fake.outcomes.length;
      throw new Error("stopped");
    });
    await worker.start();
    await begun.promise;
    fake.mode = "aggressive";
    assert.equal(await cancelled.promise, "released");
    await until("it is reported", () => reportsBefore !== undefined && fake.outcomes.length > 0);
    assert.equal(reportsBefore, 0);
    assert.deepEqual(fake.outcomes, [{ id: "a", fence: 1, outcome: "released" }]);
  });

  test("a server that does not wait is not asked without end for a result", async (t) => {
    const fake = await FakeServer.start(t, () => [200, { id: "a", state: "running" }]);
    await assert.rejects(fake.client.handle(job, "a").result({ timeout: "350ms" }), /is running/);
    assert.ok(fake.requests <= 5, `${fake.requests} requests`);
  });
});
