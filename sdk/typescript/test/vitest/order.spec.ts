/** The order example, in virtual time. */

import { Permanent } from "@windlass/sdk";
import { test } from "@windlass/sdk/vitest";
import { expect } from "vitest";

import { type Order, type Shop, order, orders } from "../../examples/order.js";

const LAMP: Order = { number: 1, item: "lamp", cents: 4900 };

/** A shop that notes its calls with their keys. */
function shop(failures: Partial<Record<keyof Shop, () => Error | undefined>> = {}): { calls: string[]; keys: string[]; shop: Shop } {
  const calls: string[] = [];
  const keys: string[] = [];
  const call = async <T>(name: keyof Shop, what: unknown, key: string, value: T): Promise<T> => {
    const error = failures[name]?.();
    if (error !== undefined) throw error;
    calls.push(`${name} ${what}`);
    keys.push(key);
    return value;
  };
  return {
    calls,
    keys,
    shop: {
      reserve: (item, key) => call("reserve", item, key, { shelf: "A7" }),
      charge: (cents, key) => call("charge", cents, key, { receipt: "R1" }),
      ship: (shelf, boxes, key) => call("ship", `${boxes} of ${shelf}`, key, undefined),
      refund: (receipt, key) => call("refund", receipt, key, undefined),
      release: (shelf, key) => call("release", shelf, key, undefined),
    },
  };
}

test("an order is shipped once the warehouse has packed it", async ({ windlass }) => {
  const { calls, keys, shop: own } = shop();
  await windlass.work((worker) => worker.on(order, orders(own)));
  const handle = await windlass.run(order, LAMP);
  await expect(handle).toHaveState("waiting");
  await windlass.advance("2h");
  await expect(handle).toHaveSavedStep("charge", { receipt: "R1" });
  await handle.signal("packed", 2);
  await windlass.settle();
  await expect(handle).toHaveCompleted("shipped in 2 boxes");
  expect(calls).toEqual(["reserve lamp", "charge 4900", "ship 2 of A7"]);
  expect(new Set(keys).size).toBe(3);
});

test("an order that the warehouse forgets is undone in reverse order", async ({ windlass }) => {
  const { calls, shop: own } = shop();
  await windlass.work((worker) => worker.on(order, orders(own)));
  const handle = await windlass.run(order, LAMP);
  await windlass.advance("4d");
  await expect(handle).toHaveCompleted("given back: the warehouse did not answer");
  expect(calls).toEqual(["reserve lamp", "charge 4900", "refund R1", "release A7"]);
});

test("a card that is refused releases the item, also if that needs a second attempt", async ({ windlass }) => {
  let tries = 0;
  const { calls, shop: own } = shop({
    charge: () => new Permanent("the card has a limit"),
    release: () => (++tries === 1 ? new Error("the network is down") : undefined),
  });
  await windlass.work((worker) => worker.on(order, orders(own)));
  const handle = await windlass.run(order, LAMP);
  await expect(handle).toHaveState("retrying");
  await windlass.advance("1m");
  await expect(handle).toHaveCompleted("given back: the card has a limit");
  expect(calls).toEqual(["reserve lamp", "release A7"]);
});

test("a worker that dies after the charge charges once", async ({ windlass }) => {
  const { calls, shop: own } = shop();
  await windlass.work((worker) => worker.on(order, orders(own)));
  await windlass.crash({ afterStep: "charge" });
  const handle = await windlass.submit(order, LAMP);
  await handle.signal("packed", 1);
  await windlass.advance("1d");
  await expect(handle).toHaveCompleted("shipped in 1 boxes");
  expect(calls.filter((call) => call.startsWith("charge"))).toEqual(["charge 4900"]);
  expect((await handle.get()).crashes).toBe(1);
});
