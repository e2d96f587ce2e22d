/** What a replay gives a handler again: errors of started children, snoozes, changed code. */

import assert from "node:assert/strict";
import { test } from "node:test";

import type { SpawnRequest, Spawned } from "../src/context/backend.js";
import type { Cx } from "../src/index.js";
import { ApiError, Snooze, StepError, defineJob } from "../src/index.js";
import { Core } from "../src/context/core.js";
import { runAttempt } from "../src/context/run.js";
import { MemoryBackend, runInline } from "../src/testing/inline.js";

const job = defineJob<null, unknown>("replay");
const other = defineJob<number>("other");

/** Refuses submissions as a server does whose unique key is taken. */
class Taken extends MemoryBackend {
  isTaken = true;
  submissions = 0;

  override async spawn(request: SpawnRequest): Promise<Spawned> {
    this.submissions += 1;
    if (this.isTaken) throw new ApiError(409, "unique_key_taken", "the unique key is taken", {}, undefined);
    return await super.spawn(request);
  }
}

async function attempt(store: MemoryBackend, handler: (payload: null, cx: Cx) => unknown): ReturnType<typeof runAttempt> {
  const info = { id: "1", type: job.name, tags: {}, attempt: 1 } as unknown as Cx["job"];
  const core = new Core(info, store, store.checkpoints, { parkWaitMs: 0, changedWaitMs: 100 });
  const outcome = await runAttempt(core, job as never, handler as never, null);
  await store.save(core.withDeferred([]));
  return outcome;
}

test("an error of a started child that the handler caught is the same in every attempt", async () => {
  const store = new Taken(0);
  const handler = async (_: null, cx: Cx) => {
    const seen = await cx.start(other.child(1)).catch((error: StepError) => [error.name, error.category, error.code, error.message]);
    const after = await cx.step("after", () => "after");
    await cx.sleep("1h");
    return [seen, after, await cx.step("last", () => "last")];
  };
  assert.equal((await attempt(store, handler))?.outcome, "parked");
  store.time += 3_600_000;
  store.isTaken = false;
  const seen = ["StepError", "temporary", "unique_key_taken", "the unique key is taken"];
  assert.deepEqual(await attempt(store, handler), { outcome: "completed", resultJson: JSON.stringify([seen, "after", "last"]), followUpsJson: [] });
  assert.equal(store.submissions, 1);
});

test("a started child whose error fails the attempt is spawned again, under the same name", async () => {
  const store = new Taken(0);
  const handler = async (_: null, cx: Cx) => await cx.start(other.child(1));
  const failed = await attempt(store, handler);
  assert.ok(failed?.outcome === "failed" && failed.error.code === "unique_key_taken");
  store.isTaken = false;
  const done = { outcome: "completed", resultJson: '"start other/0"', followUpsJson: [] };
  assert.deepEqual([await attempt(store, handler), await attempt(store, handler)], [done, done]);
  assert.deepEqual([store.submissions, store.spawned.length], [2, 1]);
});

test("changed code fails the attempt, also if the handler catches the error", async () => {
  const catches = (call: (cx: Cx) => Promise<unknown>) => async (_: null, cx: Cx) => {
    await call(cx).catch(() => {});
    return "continued";
  };
  const sleep = { "sleep:": { at: 0, until: 5, lasts_ms: 5 } };
  const group = { "children:": { at: 0, group: { strategy: "fail_fast", count: 2, types: ["other"] } } };
  const handlers: [Record<string, unknown>, (_: null, cx: Cx) => Promise<unknown>][] = [
    [{ old: { at: 0, value: 1 } }, catches((cx) => cx.step("new", () => 1))],
    [sleep, catches((cx) => cx.sleep("9d"))],
    [sleep, catches((cx) => cx.sleep("9d").catch(() => cx.step("later", () => 1)))],
    [group, catches((cx) => cx.all([other.child(1)]))],
  ];
  for (const [checkpoints, handler] of handlers) {
    const run = await runInline(job, handler, null, { checkpoints });
    assert.deepEqual([run.outcome, run.error?.category, run.error?.code, run.ran], ["failed", "permanent", "steps_changed", []]);
    assert.deepEqual(run.checkpoints, checkpoints);
  }
});

test("a snooze that the handler caught is the same in every attempt", async () => {
  const seen: unknown[] = [];
  const run = await runInline(job, async (_, cx) => {
    await cx.step("busy", () => Promise.reject(new Snooze("300s"))).catch((error: Snooze) => seen.push([error.delay, error.message]));
    await cx.step("after", () => 1);
    await cx.sleep("1d");
  }, null);
  assert.equal(run.outcome, "completed");
  assert.deepEqual(seen, [[300_000, "snoozed for 5m"], [300_000, "snoozed for 5m"]]);
});

test("`retryLater` finds a step's error behind another one", async () => {
  let runs = 0;
  const run = await runInline(job, async (_, cx) => {
    const work = () => {
      runs += 1;
      if (runs === 1) throw new Error("for now");
      return runs;
    };
    const value = await cx.step("flaky", work).catch((cause: unknown) => cx.retryLater(new Error("wrapped", { cause })));
    await cx.step("after", () => 1);
    if (value === undefined) throw new Error("something else");
    return value;
  }, null, { attempts: 3 });
  assert.deepEqual([run.outcome, run.result, runs], ["completed", 2, 2]);
});
