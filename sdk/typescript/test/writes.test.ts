/** Writes of several jobs in one request, and servers that speak another protocol, with a server that answers as a test scripts it. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { type Cx, JobFailed, OtherProtocol, RetryAfter, Windlass, defineJob } from "../src/index.js";
import { Reporter } from "../src/worker/outcomes.js";
import { FakeServer, claimed } from "./support/fake_server.js";
import { deferred, quiet, server, until } from "./support/support.js";

const job = defineJob<string, number>("a");

test("steps of several jobs share a request, and one that is refused spoils no other", async (t) => {
  const fake = await FakeServer.start(t);
  fake.claimsMax = 4;
  fake.toClaim.push(...["one", "bad", "lost", "two"].map((id) => claimed(id, "a")));
  fake.refused.add("bad");
  fake.stale.add("lost");
  await using worker = fake.client.worker({ logger: quiet, heartbeatThread: false });
  worker.on(job, (_, cx) => cx.step("work", () => 7));
  await worker.start();
  await until("all have ended", () => fake.outcomes.length === 3);
  assert.deepEqual(fake.saves, [["one", "bad", "lost", "two"], ["one", "bad"], ["one"], ["bad"], ["lost", "two"]]);
  const outcomes = new Map(fake.outcomes.map((one) => [one["id"], one]));
  assert.equal(outcomes.get("one")?.["outcome"], "completed");
  assert.equal(outcomes.get("two")?.["outcome"], "completed");
  assert.equal((outcomes.get("bad")?.["error"] as { code: string }).code, "not_allowed");
  // Whose lease is lost reports nothing.
  assert.equal(outcomes.has("lost"), false);
});

test("log lines and progress of several jobs share requests", async (t) => {
  const fake = await FakeServer.start(t);
  fake.claimsMax = 3;
  fake.toClaim.push(...["one", "two", "three"].map((id) => claimed(id, "a")));
  await using worker = fake.client.worker({ logger: quiet, heartbeatThread: false });
  worker.on(job, async (payload, cx) => {
    await Promise.all([cx.log(`line of ${payload}`), cx.progress(50)]);
    return 1;
  });
  await worker.start();
  await until("all have ended", () => fake.outcomes.length === 3);
  const lines = fake.beats.filter(({ jobs }) => jobs.some((one) => "logs" in one)).map(({ jobs }) => jobs.map(({ id }) => id));
  assert.deepEqual(lines, [["one", "two", "three"]]);
});

test("log lines that may be lost fail no attempt, and are not repeated", async (t) => {
  const fake = await FakeServer.start(t);
  fake.losesLogs = true;
  fake.toClaim.push(claimed("one", "a"));
  await using worker = fake.client.worker({ logger: quiet, heartbeatThread: false });
  worker.on(job, async (_, cx) => {
    await cx.log("a");
    return 1;
  });
  await worker.start();
  await until("it has ended", () => fake.outcomes.length === 1);
  assert.equal(fake.outcomes[0]!["outcome"], "completed");
  assert.equal(fake.beats.filter(({ jobs }) => jobs.some((one) => "logs" in one)).length, 1);
});

test("a worker takes no job of a server that speaks another protocol", async (t) => {
  const fake = await FakeServer.start(t);
  fake.protocol = 2;
  const worker = fake.client.worker({ logger: quiet }).on(job, () => 1);
  await assert.rejects(worker.run(), (error: unknown) => error instanceof OtherProtocol && error.server === 2);
  assert.equal(fake.requests, 1);
});

test("a worker ends if its server is replaced by one of another protocol", async (t) => {
  const fake = await FakeServer.start(t);
  const worker = fake.client.worker({ logger: quiet, heartbeatThread: false, drain: 0, grace: 0 });
  const began = deferred();
  fake.toClaim.push(claimed("one", "a"));
  worker.on(job, async () => {
    began.resolve();
    return await new Promise<number>(() => {});
  });
  const running = worker.run();
  await began.promise;
  fake.protocol = 2;
  fake.hasForgotten = true;
  await assert.rejects(running, OtherProtocol);
});

test("outcomes that cannot be written or stored do not end the process, nor keep the job", async (t) => {
  const { client } = await server(t);
  await using worker = client.worker({ logger: quiet });
  const endings: Record<string, (cx: Cx) => unknown> = {
    far: (cx) => cx.sleep("100000000d"),
    moment: (cx) => cx.sleepUntil(new Date(Number.NaN)),
    costs: (cx) => cx.cost(1e30),
    negative: (cx) => cx.cost(-1),
    child: (cx) => cx.all([job.child(Number.NaN as never)]),
    checkpoint: (cx) => cx.checkpoint(Number.NaN),
    promise: (cx) => cx.step("a", Promise.resolve(1) as never),
    number: (cx) => cx.step(5 as never, () => 1),
    delay: () => { throw new RetryAfter(Number.NaN); },
  };
  const ends = defineJob<string, unknown>("ends", { retry: { maxAttempts: 1 } });
  worker.on(ends, async (name, cx) => await endings[name]!(cx));
  await worker.start();
  const codes: Record<string, unknown> = {};
  for (const name of Object.keys(endings)) {
    const handle = await client.submit(ends, name);
    const error = await handle.result({ timeout: "60s" }).then(() => undefined, (found: unknown) => found);
    assert.ok(error instanceof JobFailed, `${name}: ${String(error)}`);
    codes[name] = error.error?.code ?? error.error?.message;
  }
  assert.deepEqual(codes, {
    far: "not_allowed",
    moment: "sleepUntil got an invalid date",
    costs: "outcome_rejected",
    negative: "costs are not negative, and finite: -1",
    child: "not_allowed",
    checkpoint: "not_allowed",
    promise: "step_work",
    number: "step_name",
    delay: "not a duration: NaN",
  });
});

test("an outcome that cannot be written fails the job", async () => {
  const { http } = new Windlass({ url: "http://127.0.0.1:9" });
  const sent: string[] = [];
  http.ask = (async (call: { body: string }) => {
    sent.push(call.body);
    return { outcomes: [{ id: "a", status: "applied" }] };
  }) as never;
  const reporter = new Reporter(http, quiet, () => {}, new AbortController().signal);
  const awaited = [{ kind: "moment", until: Number.NaN }] as const;
  reporter.report({ workerId: "w", id: "a", fence: 1, outcome: { outcome: "parked", awaited }, costCents: 0, checkpoints: [] });
  reporter.close();
  await reporter.done;
  const [outcome] = (JSON.parse(sent[0]!) as { outcomes: { outcome: string; error: { code: string } }[] }).outcomes;
  assert.deepEqual([outcome?.outcome, outcome?.error.code], ["failed", "panic"]);
});
