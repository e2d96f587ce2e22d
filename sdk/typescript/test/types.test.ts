/** What the types promise; the compiler is the test. */

import { test } from "node:test";

import { type Cx, type Handle, type StandardSchemaV1, Windlass, defineJob } from "../src/index.js";
import type { Jsonified } from "../src/json.js";

type Same<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false;
const same = <A, B>(_: Same<A, B>): void => {};

declare const date: StandardSchemaV1<string, Date>;
declare const receipt: StandardSchemaV1<{ total: number }, { total: number }>;

/** Never called. */
export async function compiled(cx: Cx): Promise<void> {
  const client = new Windlass();
  const plain = defineJob<{ to: string }, { id: string }>("plain");
  const checked = defineJob("checked", { payload: date, result: receipt, queue: "q" });
  const handle = await client.submit(plain, { to: "a" });
  same<typeof handle, Handle<{ id: string }>>(true);
  // @ts-expect-error a field is missing
  await client.submit(plain, {});
  // @ts-expect-error the payload is the schema's input
  await client.submit(checked, new Date());
  same<Awaited<ReturnType<typeof client.submit<string, Date, { total: number }, { total: number }>>>, Handle<{ total: number }>>(true);
  client.worker().on(checked, (at) => ({ total: at.getTime() }));
  // @ts-expect-error the result is not the schema's
  client.worker().on(checked, () => ({ sum: 1 }));
  const step = await cx.step("x", async () => ({ at: new Date(), n: 1 }));
  same<typeof step, { at: string; n: number }>(true);
  const results = await cx.all([plain.child({ to: "a" }), checked.child("2030-01-01")]);
  same<typeof results, [{ id: string }, { total: number }]>(true);
  const signal = await cx.waitSignal("paid", { schema: date, timeout: "1h" });
  same<typeof signal, Date | undefined>(true);
  const untyped = await cx.waitSignal<number>("paid");
  same<typeof untyped, number>(true);
  same<Jsonified<[1, "a", null]>, [1, "a", null]>(true);
  same<Jsonified<undefined>, null>(true);
}

test("types are checked by the compiler", () => {});
