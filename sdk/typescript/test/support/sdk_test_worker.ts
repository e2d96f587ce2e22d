/**
 * The worker for `windlass sdk-test`: runs the programs that docs/sdk-test.md describes.
 *
 *     windlass sdk-test -- node dist/test/test/support/sdk_test_worker.js
 */

import { appendFileSync, openSync } from "node:fs";
import { join } from "node:path";

import { type Cx, Failure, Snooze, StepError, Windlass, defineJob, runUntilSignal } from "../../src/index.js";
import type { Category } from "../../src/errors.js";
import type { Strategy } from "../../src/context/history.js";
import type { StandardSchemaV1 } from "../../src/schema.js";

interface FailureText {
  category: Category;
  message: string;
  code?: string | null;
  retry_after_ms?: number;
}

// biome-ignore lint: an operation has the fields of its kind.
type Operation = Record<string, any>;

const folder = process.env["WINDLASS_TEST_FOLDER"] ?? ".";
const note = (line: string) => appendFileSync(join(folder, "effects"), `${line}\n`);

/** Whether this is asked for the first time, in any process. */
function isFirst(name: string): boolean {
  try {
    openSync(join(folder, `once-${name.replaceAll("/", "_")}`), "wx");
    return true;
  } catch {
    return false;
  }
}

function failure({ category, message, code, retry_after_ms }: FailureText): Failure {
  return new Failure(message, { category, code: code ?? undefined, retryAfter: retry_after_ms });
}

/** The handler returns this. */
class Done {
  constructor(readonly result: unknown) {}
}

/** One attempt of a program. */
class Program {
  readonly #got: Record<string, unknown> = {};
  readonly #caught = new Map<string, unknown>();
  readonly #counts = new Map<string, number>();

  constructor(private readonly cx: Cx) {}

  #key(name: string): string {
    const count = (this.#counts.get(name) ?? 0) + 1;
    this.#counts.set(name, count);
    return count === 1 ? name : `${name}#${count}`;
  }

  /** Runs operations in order; returns what ends the handler, if one of them does. */
  async run(operations: Operation[], branch = ""): Promise<Done | undefined> {
    for (const one of operations) {
      const done = await this.#one(one, branch);
      if (done !== undefined) return done;
    }
    return undefined;
  }

  async #one(one: Operation, branch: string): Promise<Done | undefined> {
    const { cx } = this;
    if ("step" in one) await this.#step(one, branch);
    else if ("sleep" in one) await cx.sleep(one["sleep"], one["name"] === undefined ? {} : { name: one["name"] });
    else if ("signal" in one) {
      const key = this.#key(`${branch}signal:${one["signal"]}`);
      const options = one["timeout"] === undefined ? {} : { timeout: one["timeout"] };
      this.#got[key] = (await cx.waitSignal(one["signal"], options)) ?? null;
    } else if ("first_signal" in one) return new Done((await cx.waitAny(one["first_signal"]))?.name);
    else if ("children" in one) await this.#children(one, branch);
    else if ("checkpoint" in one) await cx.checkpoint(one["checkpoint"]);
    else if ("together" in one) await Promise.all((one["together"] as Operation[]).map((each) => this.run([each], branch)));
    else if ("fail" in one) {
      if (cx.job.failures < one["times"]) throw failure(one["fail"]);
    } else if ("raise" in one) {
      if (this.#caught.has(one["raise"])) throw this.#caught.get(one["raise"]);
    } else if ("snooze" in one) {
      if (isFirst("snooze")) throw new Snooze(one["snooze"]);
    } else if ("kill" in one) {
      if (isFirst(one["kill"])) {
        process.kill(process.pid, "SIGKILL");
        await new Promise(() => {});
      }
    } else if ("until_stopped" in one) await this.#untilStopped(one["until_stopped"]);
    else if ("pause" in one) {
      if (isFirst("pause")) await new Promise((resolve) => setTimeout(resolve, one["pause"]));
    } else if ("versions" in one) return await this.run(one["versions"].at(isFirst("version") ? 0 : -1), branch);
    else return await this.#other(one);
    return undefined;
  }

  async #other(one: Operation): Promise<Done | undefined> {
    const { cx } = this;
    if ("follow_up" in one) cx.submitOnCompletion(sdktest.child({ program: one["follow_up"] }));
    else if ("progress" in one) await cx.progress(one["progress"], one["message"]);
    else if ("log" in one) await cx.log(...one["log"]);
    else if ("stream" in one) for (const chunk of one["stream"]) void cx.stream(chunk);
    else if ("cost" in one) cx.cost(one["cost"]);
    else if ("note" in one) note(one["note"]);
    else if ("return" in one) return new Done(one["return"]);
    else if ("return_got" in one) return new Done(this.#got[one["return_got"]] ?? null);
    else if ("return_checkpoint" in one) return new Done(cx.lastCheckpoint());
    else if ("return_bytes" in one) return new Done("x".repeat(one["return_bytes"]));
    else throw new Error(`an unknown operation: ${JSON.stringify(one)}`);
    return undefined;
  }

  async #untilStopped(name: string): Promise<void> {
    if (!isFirst(name)) return;
    const { abortSignal } = this.cx;
    if (!abortSignal.aborted) await new Promise((resolve) => abortSignal.addEventListener("abort", resolve));
    note("stopped");
    throw new Error("stopped");
  }

  async #step(one: Operation, branch: string): Promise<void> {
    const key = this.#key(branch + one["step"]);
    try {
      this.#got[key] = await this.cx.step(one["step"], async () => {
        note(key);
        await this.run(one["within"] ?? [], `${key}#/`);
        if ("fails" in one && (one["times"] > 8 || Array.from({ length: one["times"] }).some((_, n) => isFirst(`${key}-${n}`)))) {
          throw failure(one["fails"]);
        }
        return "returns_bytes" in one ? "x".repeat(one["returns_bytes"]) : one["returns"];
      });
    } catch (error) {
      if (!one["caught"] || !(error instanceof StepError)) throw error;
      this.#caught.set(key, error);
    }
  }

  async #children(one: Operation, branch: string): Promise<void> {
    const key = this.#key(`${branch}children:${one["name"] ?? ""}`);
    const jobs = (one["children"] as Operation[]).map(({ payload, retry }) => sdktest.child(payload, { retry: { maxAttempts: retry.max_attempts } }));
    const strategy = one["strategy"] as Strategy;
    const results = await this.cx.allSettled(jobs, { strategy });
    this.#got[key] = results.map((each) => (each.status === "fulfilled" ? { result: each.value } : { state: each.reason.state }));
  }
}

/** A schema, in the form that every library for schemas has. */
const aNumber: StandardSchemaV1<number> = {
  "~standard": {
    version: 1,
    vendor: "windlass",
    validate: (value) => (typeof value === "number" ? { value } : { issues: [{ message: "is not a number" }] }),
  },
};

const sdktest = defineJob<{ program: Operation[] }, unknown>("sdktest");
const number = defineJob("sdktest.number", { payload: aNumber });

const worker = new Windlass()
  .worker({ name: "sdk-test", version: process.env["WINDLASS_TEST_VERSION"] ?? "1", concurrency: 4 })
  .on(sdktest, async ({ program }, cx) => (await new Program(cx).run(program))?.result ?? null)
  .on(number, (value) => value + 1);
await runUntilSignal(worker);
