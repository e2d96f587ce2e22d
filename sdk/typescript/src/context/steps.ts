/** Durable steps: run once per job, also across crashes. */

import type { ChildJob } from "../define.js";
import { LeaseLost, Permanent, Snooze, StepsChanged } from "../errors.js";
import { chainOf, failureOf } from "../failure.js";
import { Unwritable, encode } from "../json.js";
import { Branch, inBranch } from "./branch.js";
import type { Call } from "./call.js";
import { type Core, stored } from "./core.js";
import { type CallRecord, type StoredFailure, isStepName, placesOf } from "./history.js";
import { StepError } from "./reopen.js";

/** The work of a step, which gets the key of its call. */
type Work = (signal: AbortSignal, key: string) => unknown;

/** Runs `work` once per job. */
export function step(core: Core, name: string, work: Work): Promise<unknown> {
  if (!isStepName(name)) return refused(`a step cannot be named ${JSON.stringify(name)}`, "step_name");
  // A promise would run in every attempt.
  if (typeof work !== "function") return refused("a step takes a function: cx.step(name, () => …)", "step_work");
  return once(core, name, work);
}

/** A refusal that need not be awaited. */
function refused(message: string, code: string): Promise<never> {
  const refused = Promise.reject(new Permanent(message, { code }));
  refused.catch(() => {});
  return refused;
}

/** Spawns a child once per job: a step, so that an error which the handler caught is the same in every attempt. */
export function start(core: Core, job: ChildJob<unknown>): Promise<unknown> {
  return once(core, `start ${job.job.name}`, async (_, key) => {
    try {
      // Its own key names the group, so that a repeated step finds the child.
      const request = { name: key, strategy: "collect_all", jobs: [job], beside: undefined, records: [] } as const;
      const { ids } = await core.storing(() => core.backend.spawn(request));
      if (ids[0] === undefined) throw new Permanent("the child was deleted before its id was saved", { code: "child_deleted" });
      return ids[0];
    } catch (error) {
      throw core.notWritten(error);
    }
  });
}

function once(core: Core, name: string, work: Work): Promise<unknown> {
  return core.call(name, async (call) => {
    const saved = core.savedBy(call);
    return saved === undefined ? await run(core, call, work) : replay(call, saved);
  });
}

function replay(call: Call, saved: CallRecord): unknown {
  call.keep();
  const { failure } = saved;
  if (failure === undefined) return saved.value ?? null;
  if (failure.category === "permanent") throw new StepError(call.key, failure);
  const snooze = saved.snooze_ms === undefined ? undefined : new Snooze(saved.snooze_ms);
  throw call.returns(failure, placesOf(saved), snooze);
}

async function run(core: Core, call: Call, work: Work): Promise<unknown> {
  call.begin();
  core.options.onStep?.(call.key);
  let json: string | undefined;
  let failure: StoredFailure | undefined;
  try {
    json = encode(await inBranch(core.order, Branch.within(call.key), () => work(core.signal, call.key)));
  } catch (error) {
    failure = failed(core, call, error);
  }
  call.isWorking = false;
  // The handler parked or ended meanwhile, or took another branch: nothing is saved.
  if (call.isDropped || core.isOver) return undefined;
  const record = call.record();
  if (failure !== undefined) record.failure = failure;
  try {
    await core.saveCall(call, record, json);
  } catch (error) {
    if (error instanceof LeaseLost) throw error;
    // The handler may continue after this as after any other error.
    throw call.fail(stored(failureOf(error)), undefined);
  }
  call.keep();
  if (failure !== undefined) throw new StepError(call.key, failure);
  return JSON.parse(json ?? "null");
}

/** The permanent failure to save; throws any other as the handler gets it. */
function failed(core: Core, call: Call, error: unknown): StoredFailure {
  const chain = chainOf(error);
  if (chain.some((one) => one instanceof LeaseLost || one instanceof StepsChanged)) throw error;
  if (error instanceof Unwritable) {
    const message = `the step's value cannot be written as JSON: ${error.message}`;
    return stored({ category: "permanent", code: "step_unwritable", message });
  }
  const failure = stored(failureOf(error, core.options.classify));
  const snooze = chain.find((one): one is Snooze => one instanceof Snooze);
  if (snooze !== undefined) throw call.fail(failure, error, { error: snooze, ms: snooze.delay });
  if (failure.category !== "permanent") throw call.fail(failure, error);
  return failure;
}
