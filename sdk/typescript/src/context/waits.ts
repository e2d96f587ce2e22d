/** Sleeping and waiting for signals without a slot: the job parks, and a later attempt continues here. */

import { toMillis } from "../duration.js";
import { Permanent, StepsChanged } from "../errors.js";
import { messageOf } from "../failure.js";
import { type StandardSchemaV1, validate } from "../schema.js";
import type { Call } from "./call.js";
import type { Core } from "./core.js";
import { type CallRecord, recordOf } from "./history.js";
import type { Awaited } from "./quiet.js";

/** A sleep that counts down to the same moment may differ by this much. */
const SLEEP_END_TOLERANCE_MS = 60_000;
/** The last moment that the API can name. */
const LAST_MS = 253_402_300_799_999;

/** Sleeps; an unnamed sleep is identified by its number and length, a named one by its name. */
export function sleep(core: Core, ms: number, name: string | undefined): Promise<void> {
  if (name === "") {
    const refused = Promise.reject(new Permanent("the name of a sleep cannot be empty", { code: "step_name" }));
    refused.catch(() => {});
    return refused;
  }
  return core.call(`sleep:${name ?? ""}`, async (first, again) => {
    let call = first;
    let saved = core.savedBy(call);
    const isChecked = name === undefined && core.order.isStrict;
    while (saved !== undefined && isChecked && !isSameSleep(core, ms, saved)) {
      if (saved.at !== undefined) throw changedSleep(call.key, ms, saved);
      // It ran beside others and need not come again: this is the next one.
      call = await again();
      saved = core.savedBy(call);
    }
    const record = saved ?? { ...call.record(), until: endOf(core, ms), lasts_ms: ms };
    if (saved === undefined && ms > 0) core.saveWithNext(call, [call.key, JSON.stringify(record)]);
    else if (saved === undefined) await core.saveCall(call, record);
    call.goesOn(record);
    const until = record.until ?? 0;
    if (until > core.backend.now()) await park(core, call, { kind: "moment", until });
    call.keep();
  });
}

/** The end of a sleep or timeout that begins now. */
function endOf(core: Core, ms: number): number {
  const until = core.backend.now() + ms;
  if (until > LAST_MS) throw new Permanent(`${ms} ms from now is after the year 9999`, { code: "not_allowed" });
  const { expiresAt } = core.job;
  if (expiresAt !== undefined && until >= expiresAt.getTime()) {
    const end = `the end of the job's lifetime (${expiresAt.toISOString()})`;
    const message = `${ms} ms from now is after ${end}: set a longer \`lifetime\` for the job, its type or its queue`;
    throw new Permanent(message, { code: "lifetime_too_short" });
  }
  return until;
}

function isSameSleep(core: Core, ms: number, { until, lasts_ms }: CallRecord): boolean {
  if (until === undefined || lasts_ms === undefined || ms === lasts_ms || ms === 0) return true;
  return Math.abs(core.backend.now() + ms - until) <= SLEEP_END_TOLERANCE_MS;
}

function changedSleep(key: string, ms: number, saved: CallRecord): StepsChanged {
  return new StepsChanged(
    `the code was changed: sleep \`${key}\` lasts ${ms} ms, and lasted ${saved.lasts_ms} ms in an earlier attempt; give ` +
      "a sleep whose length varies a name",
  );
}

/** Waits for a signal; `undefined` once the timeout has passed. */
export function waitSignal(
  core: Core,
  name: string,
  timeoutMs: number | undefined,
  schema: StandardSchemaV1 | undefined,
  onCall?: (call: Call) => void,
): Promise<unknown> {
  const body = async (call: Call) => {
    const saved = core.savedBy(call);
    if (saved !== undefined) {
      call.keep();
      if (saved.timeout === true) return undefined;
      return await readSignal(name, saved.signal ?? null, schema);
    }
    const until = timeoutMs === undefined ? undefined : deadline(core, call, timeoutMs);
    core.saveWithNext(call);
    await park(core, call, { kind: "signal", name, step: call.key, until });
    // Whether the signal came is decided by the server alone.
    return await new Promise<never>(() => {});
  };
  return core.call(`signal:${name}`, body, onCall);
}

/** Waits for the first of several signals; of those that came, the first in `names`. */
export async function waitAny(
  core: Core,
  names: readonly string[],
  timeoutMs: number | undefined,
): Promise<{ name: string; value: unknown } | undefined> {
  if (names.length === 0) throw new Permanent("no signal names were given", { code: "not_allowed" });
  const calls: Call[] = [];
  const waits = names.map(async (name) => {
    const value = await waitSignal(core, name, timeoutMs, undefined, (call) => calls.push(call));
    return value === undefined ? undefined : { name, value };
  });
  const first = await Promise.race(waits);
  for (const call of calls) call.drop();
  return first;
}

async function readSignal(name: string, value: unknown, schema: StandardSchemaV1 | undefined): Promise<unknown> {
  try {
    return await validate(schema, value, `the value of signal ${JSON.stringify(name)}`);
  } catch (error) {
    throw new Permanent(messageOf(error), { code: "signal_unreadable", cause: error });
  }
}

/** The end of a wait: as saved on the first run, or counted from now and saved. */
function deadline(core: Core, call: Call, timeoutMs: number): number {
  const key = `deadline:${call.key}`;
  const saved = core.saved(key);
  if (saved !== undefined) return recordOf(saved).until ?? 0;
  const until = endOf(core, timeoutMs);
  core.saveWithNext(call, [key, JSON.stringify({ until })]);
  return until;
}

/** Waits until the job parks, or until something else in the handler has let the end of the wait come. */
async function park(core: Core, call: Call, awaited: Awaited): Promise<void> {
  await core.quiet.wait({ kind: "park", awaited }, call);
}

/** What a parked job waits for, as the API takes it. */
export function parkBody(awaited: readonly Awaited[], now: number): Record<string, unknown> {
  const one = (awaited: Awaited): Record<string, unknown> => {
    if (awaited.kind === "moment") return { until: new Date(awaited.until).toISOString() };
    if (awaited.kind === "group") return { group: awaited.name };
    const { name, step, until } = awaited;
    const timeout = until === undefined ? {} : { timeout: `${Math.max(0, toMillis(Math.max(0, until - now)))}ms` };
    return { signal: name, step, ...timeout };
  };
  return awaited.length === 1 ? one(awaited[0]!) : { any: awaited.map(one) };
}
