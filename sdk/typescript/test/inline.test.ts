/** Handlers without a server, and the parts of the library that need none. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { Permanent, defineJob } from "../src/index.js";
import { names } from "../src/context/reopen.js";
import { toMillis, toText } from "../src/duration.js";
import { cut, failureOf, messageOf } from "../src/failure.js";
import { Unwritable, encode } from "../src/json.js";
import { submissionOf } from "../src/submission.js";
import { runInline } from "../src/testing/index.js";

const pack = defineJob<number, number>("pack");
const order = defineJob<{ id: number }, string>("order");

async function handler({ id }: { id: number }, cx: import("../src/index.js").Cx): Promise<string> {
  const seat = await cx.step("reserve", () => id * 2);
  await cx.sleep("30d");
  const paid = await cx.waitSignal<boolean>("paid", { timeout: "1h" });
  if (!paid) return "not paid";
  const packed = await cx.all([pack.child(1), pack.child(2)]);
  await cx.log("packed");
  await cx.progress(90);
  return `${seat} ${packed.join("+")}`;
}

test("a handler runs inline, and time passes at once", async () => {
  const children = (child: { payload: unknown }) => (child.payload as number) * 100;
  const run = await runInline(order, handler, { id: 3 }, { signals: { paid: true }, children });
  assert.deepEqual([run.outcome, run.result, run.ran, run.starts], ["completed", "6 100+200", ["reserve"], 4]);
  assert.deepEqual([run.logs, run.progress], [["packed"], { percent: 90 }]);
  const late = await runInline(order, handler, { id: 3 });
  assert.equal(late.result, "not paid");
});

test("the output of the last attempt is seen inline", async () => {
  const writes = async (_: unknown, cx: import("../src/index.js").Cx) => {
    await cx.stream("a");
    await cx.step("b", () => cx.stream({ b: 1 }));
    await cx.stream(cx.job.attempt);
    if (cx.job.attempt === 1) throw new Error("once");
  };
  const run = await runInline(defineJob("writes"), writes, null, { attempts: 2 });
  assert.deepEqual([run.outcome, run.output], ["completed", ["a", 2]]);
});

test("saved steps do not run, and a run stops where it is asked to", async () => {
  const run = await runInline(order, handler, { id: 3 }, { saved: { reserve: 50 }, advance: false });
  assert.deepEqual([run.outcome, run.ran], ["parked", []]);
  const again = await runInline(order, handler, { id: 3 }, { checkpoints: run.checkpoints, signals: { paid: true } });
  assert.deepEqual([again.outcome, again.spawned.length, again.ran], ["spawned", 2, []]);
});

test("failures and retries are seen inline", async () => {
  let runs = 0;
  const flaky = () => {
    runs += 1;
    if (runs < 3) throw new Error("for now");
    return "well";
  };
  const work = async (_: unknown, cx: import("../src/index.js").Cx) => await cx.step("flaky", flaky);
  const once = await runInline(defineJob("flaky"), work, null);
  assert.deepEqual([once.outcome, once.error?.category], ["failed", "temporary"]);
  const thrice = await runInline(defineJob("flaky"), work, null, { attempts: 3 });
  assert.deepEqual([thrice.outcome, thrice.result, thrice.starts], ["completed", "well", 2]);
  const bad = await runInline(defineJob("bad"), () => Promise.reject(new Permanent("no", { code: "x" })), null, { attempts: 9 });
  assert.deepEqual([bad.starts, bad.error], [1, { category: "permanent", code: "x", message: "no" }]);
});

test("a step's value is the one read back from JSON, and one that JSON cannot hold fails", async () => {
  const job = defineJob<null, unknown>("values");
  const run = await runInline(job, (_, cx) => cx.step("date", () => ({ at: new Date(5), none: undefined })), null);
  assert.deepEqual(run.result, { at: "1970-01-01T00:00:00.005Z" });
  for (const value of [Number.NaN, 1n, new Set(), { f: () => 1 }]) {
    const bad = await runInline(job, (_, cx) => cx.step("bad", () => value as unknown), null);
    assert.deepEqual([bad.outcome, bad.error?.code], ["failed", "step_unwritable"], String(value));
  }
});

test("steps side by side that fail do not end the process, and loose ones are waited for", async () => {
  const job = defineJob<null, unknown>("loose", { retry: { maxAttempts: 1 } });
  let ended = false;
  const run = await runInline(job, async (_, cx) => {
    void cx.step("ignored", () => Promise.reject(new Error("this is not awaited")));
    const slow = cx.step("slow", async () => {
      await new Promise((resolve) => setTimeout(resolve, 30));
      ended = true;
      return 1;
    });
    await Promise.all([slow, cx.step("fails", () => Promise.reject(new Error("at once")))]);
  }, null);
  assert.deepEqual([run.outcome, run.error?.message, ended], ["failed", "at once", true]);
  assert.deepEqual(run.checkpoints["slow"], { from: 1, value: 1 });
});

test("steps within steps are counted by themselves, whichever context they use", async () => {
  const job = defineJob<null, number>("nested");
  const run = await runInline(job, async (_, cx) => {
    const sum = await cx.step("batch", async () => (await cx.step("item", () => 1)) + (await cx.step("item", () => 2)));
    return sum + (await cx.step("item", () => 4));
  }, null);
  assert.equal(run.result, 7);
  assert.deepEqual(run.ran, ["batch", "batch#/item", "batch#/item#2", "item"]);
});

test("a race drops its other side also when one fails, and remembers who was first", async () => {
  const job = defineJob<null, string>("race");
  let aborted = false;
  const handler = async (_: null, cx: import("../src/index.js").Cx) => {
    const slow = (signal: AbortSignal) =>
      cx.step("slow", async () => {
        await new Promise((resolve) => signal.addEventListener("abort", resolve));
        aborted = true;
      });
    const caught = await cx.race(() => cx.step("left", () => Promise.reject(new Error("no"))), slow).catch((error: Error) => error.message);
    return await cx.step("after", () => `${String(caught)}`);
  };
  const run = await runInline(job, handler, null);
  assert.deepEqual([run.outcome, run.result, aborted], ["completed", "no", true]);
  const left = run.checkpoints["slow#r1"] as { left_out: boolean; dropped_by: string };
  assert.deepEqual([left.left_out, left.dropped_by], [true, "left#l1"]);
  const again = await runInline(job, handler, null, { checkpoints: run.checkpoints });
  assert.deepEqual([again.result, again.ran], ["no", []]);
});

test("a handler that parked or ended makes no more calls", async () => {
  const job = defineJob<null, string>("late");
  let late = 0;
  const calls: Promise<unknown>[] = [];
  const run = await runInline(job, (_, cx) => {
    calls.push(new Promise<void>((resolve) => setTimeout(resolve, 10)).then(() => cx.log("late")));
    setTimeout(() => void cx.step("late", () => (late += 1)), 5);
    return "ended";
  }, null);
  await Promise.all(calls);
  assert.deepEqual([run.result, late, run.logs], ["ended", 0, []]);
});

test("durations are written as the server reads them", () => {
  assert.deepEqual(["1h30m", "250ms", "7d", "1m", "0s", 1500].map(toMillis), [5_400_000, 250, 604_800_000, 60_000, 0, 1500]);
  assert.deepEqual(["1w", "1.5h", "1w0.5d", "0.25s", "1m5ms"].map(toMillis), [604_800_000, 5_400_000, 648_000_000, 250, 60_005]);
  assert.deepEqual(["1w", "1.5h"].map(toText), ["7d", "1h30m"]);
  assert.deepEqual([5_400_000, 250, 0, 90_061_001].map(toText), ["1h30m", "250ms", "0s", "1d1h1m1s1ms"]);
  for (const wrong of ["", "5", "m", "1s1h", "-1s", "1.h", ".5h", -1, Number.NaN]) assert.throws(() => toMillis(wrong), RangeError);
});

test("anything that is thrown has a message", () => {
  const proxy = new Proxy({}, { get: () => { throw new Error("trap"); } });
  assert.equal(messageOf(proxy), "threw a value that has no text");
  assert.deepEqual([messageOf(new AggregateError([new Error("a"), "b"])), messageOf(""), messageOf(Symbol("s"))], ["a; b", "threw an empty string", "threw Symbol(s)"]);
  const circular = new Error("a");
  circular.cause = circular;
  assert.deepEqual(failureOf(circular), { category: "temporary", message: "a" });
  assert.equal(cut("😀".repeat(2000), 4096), "😀".repeat(1024));
  assert.equal(cut("a\ud800", 10), "a\ufffd");
  assert.equal(encode({ a: undefined, b: [undefined] }), '{"b":[null]}');
  assert.ok(names("charging: no funds", "no funds") && names("(no)", "no") && !names("none", "no") && !names("no", ""));
});

test("values that JSON would lose are refused, and others are not", () => {
  const lost: unknown[] = [
    Number.NaN, 1n, new Map(), new WeakMap(), new Uint8Array(1), new ArrayBuffer(1), new Error("x"), /x/, Promise.resolve(1), new Date(Number.NaN),
    (function* () {})(), (async function* () {})(), () => 1, Symbol("s"), "\ud800", "a\udc00b", "\\\ud800",
  ];
  for (const value of lost) {
    for (const one of [value, [value], { a: value }]) assert.throws(() => encode(one), Unwritable, String(value));
  }
  assert.throws(() => encode({ deep: [{ at: new Date(Number.NaN) }] }), /`at` is an invalid date/);
  assert.throws(() => encode({ "\ud800": 1 }), Unwritable);
  const kept: unknown[] = ["😀", "\\ud800", "\\\\ud83d", { a: null, next: 1 }, [null], Buffer.from("a"), new Date(0), "\u2028", { toJSON: () => 1 }];
  for (const value of kept) assert.equal(encode(value), JSON.stringify(value));
});

test("an option that is undefined leaves the definition's own", async () => {
  const job = defineJob<null>("a", { queue: "shop", priority: "high", tags: { team: "a" } });
  const { json } = await submissionOf(job as never, null, { queue: undefined, priority: undefined, key: undefined, tags: undefined });
  assert.deepEqual(JSON.parse(json), { type: "a", queue: "shop", priority: "high", tags: { team: "a" }, payload: null });
});

test("options that a submission does not have are refused, and jobs of a batch have names", async () => {
  const wrong = [{ priorty: 5 }, { retry: { attempts: 5 } }, { runAt: "2030-01-01" }];
  for (const options of wrong) await assert.rejects(submissionOf(pack, 1, options as never), TypeError);
  await assert.rejects(submissionOf(defineJob("typo", { maxAttempts: 5 } as never), 1, {}), /no option "maxAttempts"/);
  const { json } = await submissionOf(pack, 1, { batchName: "one", after: ["@two"], retry: { jitterMode: "hashed" }, delay: undefined });
  assert.deepEqual(JSON.parse(json), { type: "pack", after: ["@two"], name: "one", retry: { jitter_mode: "hashed" }, payload: 1 });
});
