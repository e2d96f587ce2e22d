/** Runs one attempt: whatever the handler does becomes an outcome, or nothing if the attempt lost its lease. */

import { toMillis } from "../duration.js";
import type { AnyJob } from "../define.js";
import { LeaseLost, Permanent, Snooze } from "../errors.js";
import { type FailureBody, chainOf, failureOf, messageOf } from "../failure.js";
import { encode } from "../json.js";
import { validate } from "../schema.js";
import { childSubmission } from "../submission.js";
import { pause } from "../timing.js";
import { Cx } from "./context.js";
import type { Core } from "./core.js";
import type { Awaited } from "./quiet.js";

/** How an attempt ended. */
export type Outcome =
  | { readonly outcome: "completed"; readonly resultJson: string; readonly followUpsJson: readonly string[] }
  | { readonly outcome: "failed"; readonly error: FailureBody }
  | { readonly outcome: "released" }
  | { readonly outcome: "parked"; readonly awaited: readonly Awaited[] }
  | { readonly outcome: "parked"; readonly forMs: number };

/** A handler of any job. */
export type AnyHandler = (payload: never, cx: Cx) => unknown;

/** How long steps that still run when the handler has failed may take, so that they do not run beside the next attempt. */
const LOOSE_STEPS_MS_MAX = 5000;

/** Runs a handler; `undefined` if there is nothing to report. */
export async function runAttempt(core: Core, job: AnyJob, handler: AnyHandler, payload: unknown): Promise<Outcome | undefined> {
  const running = call(core, job, handler, payload);
  const ended = await Promise.race([
    running.then(
      (resultJson) => ({ resultJson }),
      (error: unknown) => ({ error }),
    ),
    core.exit,
  ]);
  if (ended === "parked") return undefined;
  try {
    await core.finishOutput();
    if (core.changed !== undefined) return await failed(core, core.changed);
    if ("awaited" in ended) {
      for (const [key, json] of ended.unplaced) core.deferred.set(key, json);
      return { outcome: "parked", awaited: ended.awaited };
    }
    if ("resultJson" in ended) return await completed(core, ended.resultJson);
    return await failed(core, ended.error);
  } catch (error) {
    if (error instanceof LeaseLost) return undefined;
    return { outcome: "failed", error: { category: "temporary", code: "not_written", message: messageOf(error) } };
  } finally {
    core.end();
  }
}

async function completed(core: Core, resultJson: string): Promise<Outcome> {
  const submissions = await Promise.all(core.followUps.map(childSubmission));
  return { outcome: "completed", resultJson, followUpsJson: submissions.map(({ json }) => json) };
}

async function call(core: Core, job: AnyJob, handler: AnyHandler, payload: unknown): Promise<string> {
  let input: unknown;
  try {
    input = await validate(job.payload, payload, "the payload");
  } catch (error) {
    throw new Permanent(messageOf(error), { code: "payload_unreadable", cause: error });
  }
  const output = await handler(input as never, new Cx(core));
  try {
    await validate(job.result, output, "the result");
    return encode(output);
  } catch (error) {
    const message = `the result cannot be written: ${messageOf(error)}`;
    throw new Permanent(message, { code: "result_unwritable", cause: error });
  }
}

/** The outcome of an attempt that ended with this error. The step that threw it runs again. */
async function failed(core: Core, error: unknown): Promise<Outcome | undefined> {
  const chain = chainOf(error);
  if (chain.some((one) => one instanceof LeaseLost) || core.reason === "lost") return undefined;
  await looseSteps(core);
  // No step's error made it fail, and none runs again.
  if (error === core.changed) return { outcome: "failed", error: failureOf(error) };
  const records = core.order.reopenedBy(error);
  if (records.length > 0) for (const [key, json] of records) core.deferred.set(key, json);
  else warnIfStuck(core);
  const snooze = chain.find((one): one is Snooze => one instanceof Snooze);
  if (snooze !== undefined) return { outcome: "parked", forMs: toMillis(snooze.delay) };
  const failure = failureOf(error, core.options.classify);
  // It was asked to stop and could not finish: not a failure of the job.
  if (core.reason !== undefined && failure.category === "temporary") return { outcome: "released" };
  return { outcome: "failed", error: failure };
}

/** Waits for steps that the handler started and did not await, such as those beside one that failed. */
async function looseSteps(core: Core): Promise<void> {
  const until = Date.now() + LOOSE_STEPS_MS_MAX;
  const isWorking = () => [...core.order.calls].some((call) => call.isWorking);
  while (isWorking() && Date.now() < until && core.reason === undefined) await pause(10, core.signal);
}

function warnIfStuck(core: Core): void {
  const steps = core.order.stuckOn();
  if (steps.length === 0) return;
  core.warn(
    `every step of this attempt was replayed, including the errors of ${steps.join(", ")}, and the next attempt would be ` +
      "the same: throw a step's error, or pass it to `retryLater`, to run the step again",
  );
}
