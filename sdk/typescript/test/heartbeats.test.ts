/** When heartbeats are sent, and when handlers are stopped because the server does not answer; in virtual time. */

import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";

import { type CancelReason, Windlass, defineJob } from "../src/index.js";
import { Attempts } from "../src/worker/attempts.js";
import { type BeatNews, type BeatOrder, beatLoop } from "../src/worker/beat_loop.js";
import type { ClaimedJob } from "../src/worker/protocol.js";
import { claimed } from "./support/fake_server.js";
import { quiet } from "./support/support.js";
import { VirtualTime } from "./support/virtual_time.js";

const job = defineJob<string, string>("beating");
const LEASE_MS = 30_000;

/** A loop of heartbeats with a worker; `silent` has the times when it found that the server does not answer. */
function start(t: TestContext, silenceMs = 21_000): { time: VirtualTime; order: (order: BeatOrder) => void; news: BeatNews[]; silent: number[] } {
  const time = new VirtualTime(t);
  const [news, silent]: [BeatNews[], number[]] = [[], []];
  const order = beatLoop({ url: "http://127.0.0.1:9", key: undefined, everyMs: 10_000, silenceMs }, (one) => {
    news.push(one);
    if (one.type === "silent") silent.push(time.nowMs);
  });
  t.after(() => order({ type: "stop" }));
  order({ type: "worker", id: "w" });
  return { time, order, news, silent };
}

const add = (id: string, leaseMs = LEASE_MS): BeatOrder => ({ type: "add", jobs: `${id} 1 ${leaseMs}` });

/** One job begins every 120 ms and runs for 250 ms. */
function flow(order: (order: BeatOrder) => void): { each: () => void; begun: { id: string; step: number }[] } {
  const begun: { id: string; step: number }[] = [];
  let step = 0;
  const each = () => {
    if (step % 12 === 0) {
      begun.push({ id: `j${step}`, step });
      order(add(`j${step}`));
    }
    if (step >= 25 && (step - 25) % 12 === 0) order({ type: "remove", jobs: `j${step - 25} 1` });
    step += 1;
  };
  return { each, begun };
}

test("a steady flow of jobs ends no request that waits, and outages are noticed each time", async (t) => {
  const { time, order, news, silent } = start(t);
  order(add("long"));
  const { each, begun } = flow(order);
  await time.pass(60_000, each);
  assert.deepEqual(news, []);
  assert.ok(time.beats.every(({ end }) => end !== "aborted"));
  assert.ok(time.beats.filter(({ waitMs }) => waitMs > 0).length <= 13);
  const sent = new Set(time.beats.flatMap(({ ids }) => ids));
  assert.deepEqual(begun.slice(0, -2).filter(({ id }) => !sent.has(id)), []);
  for (const outage of [1, 2]) {
    time.answersAfter = () => undefined;
    await time.pass(40_000);
    assert.equal(silent.length, outage);
    const lateMs = silent[outage - 1]! - time.lastAnsweredMs - 21_000;
    assert.ok(lateMs >= 0 && lateMs <= 100, `${lateMs} ms late`);
    time.answersAfter = ({ waitMs }) => waitMs;
    await time.pass(30_000);
  }
  assert.equal(silent.length, 2);
});

test("jobs that are not in the request that waits are sent beside it, by a thousand, one request at a time", async (t) => {
  const { time, order } = start(t);
  await time.pass(1000);
  // A slow server.
  time.answersAfter = ({ waitMs }) => waitMs + 300;
  order({ type: "add", jobs: Array.from({ length: 2500 }, (_, n) => `j${n} 1 ${LEASE_MS}`).join("\n") });
  await time.pass(1500);
  const [first, ...short] = time.beats;
  assert.deepEqual([first!.end, first!.waitMs], [undefined, 5000]);
  assert.deepEqual(short.map(({ ids, waitMs }) => [ids.length, waitMs]), [[1000, 0], [1000, 0], [500, 0]]);
  for (const [index, beat] of short.slice(1).entries()) assert.ok(beat.atMs >= short[index]!.endMs!);
  assert.equal(new Set(short.flatMap(({ ids }) => ids)).size, 2500);
});

test("each answer counts, however many requests the jobs need", async (t) => {
  const { time, order, silent } = start(t);
  time.answersAfter = ({ waitMs }) => waitMs + 4000;
  order({ type: "add", jobs: Array.from({ length: 6000 }, (_, n) => `j${n} 1 ${LEASE_MS}`).join("\n") });
  await time.pass(60_000);
  assert.deepEqual(silent, []);
  for (const id of ["j0", "j1500", "j5999"]) assert.ok(time.longestGapMs(id) < LEASE_MS, `${id}: ${time.longestGapMs(id)} ms`);
});

test("a job with a short lease that begins beside a request that waits keeps its lease", async (t) => {
  const { time, order } = start(t);
  order(add("long"));
  await time.pass(1000);
  order(add("short", 3000));
  await time.pass(10_000);
  assert.ok(time.longestGapMs("short") <= 1100, `${time.longestGapMs("short")} ms`);
  // No idle connection is left that could be half dead when another one is.
  assert.ok(time.beats.every(({ isClosing, atMs }) => isClosing === atMs > 1000));
});

for (const [silenceMs, leaseMs, waitMs, answerMs] of [
  [21_000, LEASE_MS, 5000, 8000],
  [21_000, 12_000, 2000, 4000],
  [16_000, LEASE_MS, 3000, 8000],
  [16_000, 3000, 500, 1000],
] as const) {
  test(`one request without an answer ends no lease of ${leaseMs / 1000} s, with ${silenceMs / 1000} s until silence`, async (t) => {
    const { time, order, news, silent } = start(t, silenceMs);
    order(add("a", leaseMs));
    await time.pass(30_000);
    assert.deepEqual(news, []);
    const before = time.beats.length;
    time.answersAfter = (beat) => (time.beats.length === before + 1 ? undefined : beat.waitMs);
    await time.pass(60_000);
    const lost = time.beats[before]!;
    assert.deepEqual([lost.end, lost.waitMs, lost.endMs! - lost.atMs], ["aborted", waitMs, waitMs + answerMs]);
    // On another connection, because that one was closed.
    assert.equal(time.beats[before + 1]!.atMs, lost.endMs);
    assert.deepEqual([silent, news.map(({ type }) => type)], [[], ["problem"]]);
    assert.ok(time.longestGapMs("a") < leaseMs, `${time.longestGapMs("a")} ms`);
  });
}

test("a worker that registered again notices silence again", async (t) => {
  const { time, order, silent } = start(t);
  time.answersAfter = () => undefined;
  await time.pass(25_000);
  order({ type: "worker", id: "another" });
  await time.pass(25_000);
  assert.equal(silent.length, 2);
});

test("a wall clock that was set stops no handler, but leases are asked for at once, because the machine may have slept", async (t) => {
  const { time, order, news } = start(t);
  order(add("a"));
  await time.pass(12_000);
  for (const jumpMs of [3_600_000, -7_200_000]) {
    const before = time.beats.length;
    time.wallMs += jumpMs;
    await time.pass(110);
    assert.equal(time.beats.length, before + 1);
    await time.pass(30_000);
  }
  assert.deepEqual(news, []);
});

for (const grace of [0, 5, 10, 16, 60]) {
  test(`handlers with a grace of ${grace} s have ended 26 s after the last heartbeat that was answered`, async (t) => {
    const time = new VirtualTime(t);
    const jobs = [claimed("a", job.name, { lease_expires_at: new Date(60_000).toISOString() })];
    time.others = (path) => {
      if (path === "/workers") return { worker_id: "w", heartbeat_every: "10s", protocol: 1 };
      if (path === "/claims" && jobs.length > 0) return { jobs: jobs.splice(0), paused: false };
      return path.startsWith("/workers/") ? {} : undefined;
    };
    const worker = new Windlass({ url: "http://127.0.0.1:9", fetch: time.fetch }).worker({ logger: quiet, grace: `${grace}s` });
    let cancelled: [CancelReason | undefined, number] | undefined;
    worker.on(job, (_, cx) => {
      cx.abortSignal.addEventListener("abort", () => (cancelled = [cx.cancelReason, time.nowMs]));
      return new Promise(() => {});
    });
    await worker.start();
    await time.pass(60_000);
    assert.deepEqual([cancelled, worker.running], [undefined, 1]);
    time.answersAfter = () => undefined;
    let endedMs: number | undefined;
    await time.pass(70_000, () => {
      if (worker.running === 0) endedMs ??= time.nowMs;
    });
    const [reason, cancelledMs] = cancelled!;
    const silenceMs = 26_000 - 1000 * Math.max(5, Math.min(grace, 10));
    const lateMs = cancelledMs - time.lastAnsweredMs - silenceMs;
    assert.ok(reason === "unreachable" && lateMs >= 0 && lateMs <= 100, `${reason}, ${lateMs} ms late`);
    assert.ok(endedMs! - time.lastAnsweredMs <= 26_110, `${endedMs! - time.lastAnsweredMs} ms`);
    const stopped = worker.stop();
    await time.pass(20_000);
    await stopped;
  });
}

test("a handler that stops already has less time once the server does not answer", async (t) => {
  const time = new VirtualTime(t);
  const registrations = new Map([[job.name, { job: job as never, handler: () => new Promise(() => {}), run: {} }]]);
  const { http } = new Windlass({ url: "http://127.0.0.1:9" });
  const attempts = new Attempts(http, registrations, 60_000, quiet, () => {}, () => {});
  attempts.start("w", claimed("a", job.name) as unknown as ClaimedJob);
  attempts.direct("a", 1, "cancel");
  await time.pass(1000);
  attempts.stopAll("unreachable");
  await time.pass(9990);
  assert.equal(attempts.size, 1);
  await time.pass(20);
  assert.equal(attempts.size, 0);
});
