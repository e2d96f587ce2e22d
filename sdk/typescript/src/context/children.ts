/** Fan-out: a job spawns children and continues when their group is decided. */

import type { AnyJob, ChildJob } from "../define.js";
import { type JobError, Permanent, StepsChanged } from "../errors.js";
import { messageOf } from "../failure.js";
import { validate } from "../schema.js";
import type { ChildView, GroupView, Spawned } from "./backend.js";
import type { Core } from "./core.js";
import type { GroupShape, Strategy } from "./history.js";

/** Why a child has no result. */
export class ChildFailed extends Error {
  override readonly name = "ChildFailed";

  constructor(
    /** Its position in the input, from 0. */
    readonly index: number,
    readonly jobId: string | undefined,
    /** Its state; `deleted` if it does not exist any more. Not final only if the group was decided without it. */
    readonly state: string,
    readonly error: JobError | undefined,
  ) {
    const what = jobId === undefined ? `child ${index}` : `child ${index} (${jobId})`;
    super(`${what} is ${state}${error === undefined ? "" : `: ${error.message}`}`);
  }
}

/** The result of one child. */
export type ChildResult<T> = { readonly status: "fulfilled"; readonly value: T } | { readonly status: "rejected"; readonly reason: ChildFailed };

/** How a group is decided and identified. */
export interface GroupOptions {
  /** `fail_fast`: at the first child that does not complete; `collect_all`: when all have finished; or after n successes. */
  readonly strategy?: Strategy;
  /** Identifies the group by this name alone; without it by its number, strategy, count and types. */
  readonly name?: string;
}

/** Spawns children and waits, without a slot, until their group is decided. */
export function children(
  core: Core,
  jobs: readonly ChildJob<unknown>[],
  strategy: Strategy,
  name: string | undefined,
): Promise<ChildResult<unknown>[]> {
  if (name === "") {
    const refused = Promise.reject(new Permanent("the name of a group cannot be empty", { code: "step_name" }));
    refused.catch(() => {});
    return refused;
  }
  return core.call(`children:${name ?? ""}`, async (call) => {
    const shape = shapeOf(strategy, jobs);
    const saved = core.savedBy(call);
    const group = async () => await core.quiet.storing(() => core.backend.group(call.key));
    if (saved !== undefined) {
      if (name === undefined && core.order.isStrict && saved.group !== undefined) checkShape(call.key, shape, saved.group);
      const known = await group();
      if (known !== undefined && known.decided !== null) {
        call.keep();
        return await resultsOf(call.key, jobs, known);
      }
    } else {
      core.saveWithNext(call, [call.key, JSON.stringify({ ...call.record(), group: shape })]);
    }
    call.goesOn({ ...call.record(), group: shape });
    const answer = await core.quiet.wait({ kind: "spawn" }, call);
    const records = core.withDeferred(core.order.besideEachOther());
    const beside = answer === "spawn_first" ? undefined : typeof answer === "string" ? [] : answer;
    let spawned: Spawned;
    try {
      spawned = await core.storing(() => core.backend.spawn({ name: call.key, strategy, jobs, beside, records }));
      core.written(records);
    } catch (error) {
      throw core.notWritten(error);
    }
    if (beside === undefined) {
      await core.quiet.wait({ kind: "park", awaited: { kind: "group", name: call.key } }, call);
      return await new Promise<never>(() => {});
    }
    const known = spawned.isRunning ? await group() : undefined;
    if (known !== undefined) {
      // The group was decided between the two requests, so the server did not park the job.
      call.keep();
      return await resultsOf(call.key, jobs, known);
    }
    core.leave("parked");
    return await new Promise<never>(() => {});
  });
}

function shapeOf(strategy: Strategy, jobs: readonly ChildJob<unknown>[]): GroupShape {
  const types = [...new Set(jobs.map(({ job }) => job.name))].sort(byCodePoint);
  return { strategy, count: jobs.length, types };
}

/** Names of types are ASCII, where code units and code points have the same order. */
function byCodePoint(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

function checkShape(key: string, asked: GroupShape, saved: GroupShape): void {
  const text = (shape: GroupShape) => JSON.stringify([shape.strategy, shape.count, shape.types]);
  if (text(asked) === text(saved)) return;
  throw new StepsChanged(
    `the code was changed: group \`${key}\` is ${text(asked)}, and was ${text(saved)} in an earlier attempt; give a ` +
      "group that varies a name",
  );
}

async function resultsOf(key: string, jobs: readonly ChildJob<unknown>[], group: GroupView): Promise<ChildResult<unknown>[]> {
  const byIndex = new Map(group.children.map((child) => [child.index, child]));
  if (group.children.some((child) => child.omitted)) {
    throw new Permanent(`the results of group \`${key}\` are too large: let children return references to data`, {
      code: "child_results_too_large",
    });
  }
  const results: ChildResult<unknown>[] = [];
  for (let index = 0; index < group.total; index += 1) {
    results.push(await resultOf(index, jobs[index]?.job as AnyJob | undefined, byIndex.get(index)));
  }
  return results;
}

async function resultOf(index: number, job: AnyJob | undefined, child: ChildView | undefined): Promise<ChildResult<unknown>> {
  if (child === undefined) return { status: "rejected", reason: new ChildFailed(index, undefined, "deleted", undefined) };
  if (child.state !== "completed") {
    return { status: "rejected", reason: new ChildFailed(index, child.id, child.state, child.error ?? undefined) };
  }
  try {
    if (child.redacted) throw new Error("this key may not read it");
    return { status: "fulfilled", value: await validate(job?.result, child.result ?? null, "the result") };
  } catch (error) {
    const message = `the result of child ${index} cannot be read: ${messageOf(error)}`;
    throw new Permanent(message, { code: "child_result_unreadable", cause: error });
  }
}

/** All results, or the error that explains why there are not: one that failed before one that was cancelled because of it. */
export function allOf(results: readonly ChildResult<unknown>[]): unknown[] {
  const errors = results.flatMap((result) => (result.status === "rejected" ? [result.reason] : []));
  const first = errors.find(({ state }) => state === "failed" || state === "dead_letter") ?? errors[0];
  if (first !== undefined) throw first;
  return results.map((result) => (result.status === "fulfilled" ? result.value : undefined));
}
