/** The test vectors of docs/protocol.md: each is one attempt, with the records and the outcome that it must lead to. */

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import type { ChildView } from "../src/context/backend.js";
import type { Cx } from "../src/context/context.js";
import { Core } from "../src/context/core.js";
import type { Strategy } from "../src/context/history.js";
import { runAttempt } from "../src/context/run.js";
import { Failure, defineJob } from "../src/index.js";
import type { Category } from "../src/errors.js";
import { MemoryBackend } from "../src/testing/inline.js";

interface FailureText {
  category: Category;
  message: string;
  code?: string;
  retry_after_ms?: number;
}

interface Operation {
  race?: [Operation, Operation];
  step?: string;
  returns?: unknown;
  fails?: FailureText;
  within?: Operation[];
  caught?: boolean;
  sleep?: number;
  name?: string;
  signal?: string;
  timeout?: number;
  children?: { type: string; payload?: unknown }[];
  strategy?: Strategy;
  checkpoint?: unknown;
  together?: Operation[];
  raise?: string;
  fail?: FailureText;
  return?: unknown;
}

interface Vector {
  name: string;
  saved?: Record<string, unknown>;
  groups?: { name: string; decided: string; children: ChildView[] }[];
  lenient?: boolean;
  program: Operation[];
  expect: { ran: string[]; saves: [string, unknown][]; got?: Record<string, unknown>; outcome: Record<string, unknown> };
}

const path = process.env["WINDLASS_VECTORS"];
assert.ok(path, "WINDLASS_VECTORS names docs/protocol/vectors.json");
const { now, protocol, vectors } = JSON.parse(readFileSync(path, "utf8")) as { now: number; protocol: number; vectors: Vector[] };

/** What the vectors say of a run: what calls returned, and errors that the handler caught. */
class Program {
  readonly got: Record<string, unknown> = {};
  readonly #caught = new Map<string, unknown>();
  readonly #counts = new Map<string, number>();
  #races = 0;

  #key(name: string, path: string, sides = ""): string {
    const count = (this.#counts.get(path + name + sides) ?? 0) + 1;
    this.#counts.set(path + name + sides, count);
    return `${path}${name}${sides}${count === 1 ? "" : `#${count}`}`;
  }

  /** Runs operations in order; returns the result of the handler, if one of them ends it. */
  async run(cx: Cx, operations: Operation[], path = ""): Promise<unknown> {
    for (const operation of operations) {
      if ("return" in operation) return operation.return;
      await this.#one(cx, operation, path);
    }
    return null;
  }

  async #one(cx: Cx, operation: Operation, path: string, sides = ""): Promise<void> {
    if (operation.together) {
      await Promise.all(operation.together.map((one) => this.#one(cx, one, path)));
    } else if (operation.race) {
      this.#races += 1;
      const [left, right] = operation.race;
      const sides = [`#l${this.#races}`, `#r${this.#races}`] as const;
      await cx.race(() => this.#one(cx, left, path, sides[0]), () => this.#one(cx, right, path, sides[1]));
    } else if (operation.step !== undefined) {
      await this.#step(cx, operation, path, sides);
    } else if (operation.sleep !== undefined) {
      await cx.sleep(operation.sleep, operation.name === undefined ? {} : { name: operation.name });
    } else if (operation.signal !== undefined) {
      const key = this.#key(`signal:${operation.signal}`, path, sides);
      const { timeout } = operation;
      const value = timeout === undefined ? await cx.waitSignal(operation.signal) : await cx.waitSignal(operation.signal, { timeout });
      this.got[key] = value ?? null;
    } else if (operation.children) {
      await this.#children(cx, operation, path, sides);
    } else if ("checkpoint" in operation) {
      await cx.checkpoint(operation.checkpoint);
    } else if (operation.raise !== undefined) {
      throw this.#caught.get(operation.raise);
    } else if (operation.fail) {
      throw failure(operation.fail);
    }
  }

  async #step(cx: Cx, operation: Operation, path: string, sides: string): Promise<void> {
    const key = this.#key(operation.step!, path, sides);
    try {
      this.got[key] = await cx.step(operation.step!, async () => {
        if (operation.within) await this.run(cx, operation.within, `${key}#/`);
        if (operation.fails) throw failure(operation.fails);
        return operation.returns;
      });
    } catch (error) {
      if (!operation.caught) throw error;
      this.#caught.set(key, error);
    }
  }

  async #children(cx: Cx, operation: Operation, path: string, sides: string): Promise<void> {
    const key = this.#key(`children:${operation.name ?? ""}`, path, sides);
    const jobs = operation.children!.map(({ type, payload }) => defineJob(type).child(payload));
    const options = { strategy: operation.strategy!, ...(operation.name === undefined ? {} : { name: operation.name }) };
    const results = await cx.allSettled(jobs, options);
    this.got[key] = results.map((one) => (one.status === "fulfilled" ? { result: one.value } : { state: one.reason.state }));
  }
}

function failure({ category, message, code, retry_after_ms }: FailureText): Failure {
  return new Failure(message, { category, code, retryAfter: retry_after_ms });
}

async function attempt(vector: Vector): Promise<Vector["expect"]> {
  const store = new MemoryBackend(now);
  for (const { name, decided, children } of vector.groups ?? []) store.groups.set(name, { decided, total: 2, children });
  const job = {
    id: "00000000-0000-4000-8000-000000000000", type: "vector", queue: "default", tenant: "default", attempt: 1, attemptId: "1",
    failures: 0, maxAttempts: 3, priority: 50, fence: 1, key: undefined, correlationId: undefined, tags: {},
    traceparent: undefined, deadline: undefined, lastError: undefined,
  };
  const ran: string[] = [];
  const options = { lenientSteps: vector.lenient === true, parkWaitMs: 0, changedWaitMs: 20, onStep: (key: string) => void ran.push(key) };
  const core = new Core(job, store, Object.entries(vector.saved ?? {}), options);
  const program = new Program();
  const ended = await runAttempt(core, defineJob("vector"), (_, cx) => program.run(cx, vector.program), null);
  await store.save(core.withDeferred([]));
  return { ran, saves: store.saves, got: program.got, outcome: shown() };

  function shown(): Record<string, unknown> {
    if (ended === undefined) {
      const { name, strategy, jobs } = store.request!;
      const first = store.started.map((one) => one.name);
      return { outcome: "spawned", name, strategy, count: jobs.length, ...(first.length === 0 ? {} : { first }) };
    }
    if (ended.outcome === "completed") return { outcome: "completed", result: JSON.parse(ended.resultJson) };
    if (ended.outcome === "failed") return { outcome: "failed", category: ended.error.category, code: ended.error.code ?? null };
    if (ended.outcome !== "parked" || "forMs" in ended) return { ...ended };
    const parks = ended.awaited.map((one) => {
      if (one.kind === "moment") return { until: one.until };
      if (one.kind === "group") return { group: one.name };
      const { name, step, until } = one;
      return until === undefined ? { signal: name, step } : { signal: name, step, timeout_ms: Math.max(0, until - now) };
    });
    return { outcome: "parked", park: parks.length === 1 ? parks[0] : { any: parks } };
  }
}

const hasTogether = (operations: Operation[]): boolean => operations.some((one) => one.together !== undefined || one.race !== undefined);
const sorted = (values: unknown[]) => [...values].sort((a, b) => (JSON.stringify(a) < JSON.stringify(b) ? -1 : 1));

test("protocol 1 is implemented", () => assert.equal(protocol, 1));

for (const vector of vectors) {
  test(`vector ${vector.name}`, async () => {
    const found = await attempt(vector);
    const { expect } = vector;
    const order = hasTogether(vector.program) ? sorted : (values: unknown[]) => values;
    assert.deepEqual(order(found.ran), order(expect.ran), "ran");
    assert.deepEqual(order(found.saves), order(expect.saves), "saves");
    for (const [key, value] of Object.entries(expect.got ?? {})) assert.deepEqual(found.got![key], value, key);
    assert.deepEqual(found.outcome, expect.outcome);
  });
}
