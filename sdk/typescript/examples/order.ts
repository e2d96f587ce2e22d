/**
 * An order as one durable function: reserve, charge, wait for the warehouse, ship. If the warehouse does not answer in three
 * days, or an item cannot be shipped, everything is undone in reverse order. A crash at any point continues after the last
 * step that ended.
 *
 *     windlass dev -- node examples/order.js
 */

import { pathToFileURL } from "node:url";

import { type Cx, Permanent, StepError, Windlass, defineJob, runUntilSignal } from "@windlass/sdk";

export interface Order {
  readonly number: number;
  readonly item: string;
  readonly cents: number;
}

export const order = defineJob<Order, string>("order", {
  timeouts: { lifetime: "30d" },
  retry: { maxAttempts: 5, initialDelay: "10s" },
});

/** Calls of other systems. Each takes a key that is the same in every attempt, so that a repeated call has one effect. */
export interface Shop {
  reserve(item: string, key: string): Promise<{ shelf: string }>;
  charge(cents: number, key: string): Promise<{ receipt: string }>;
  ship(shelf: string, boxes: number, key: string): Promise<void>;
  refund(receipt: string, key: string): Promise<void>;
  release(shelf: string, key: string): Promise<void>;
}

/** The handler of orders, for a shop. */
export function orders(shop: Shop): (order: Order, cx: Cx) => Promise<string> {
  return async ({ item, cents }, cx) => {
    const key = (name: string) => cx.idempotencyKey(name);
    /** What undoes the steps so far, the first one first. */
    const undo: [name: string, work: () => Promise<void>][] = [];
    const giveBack = async (why: string) => {
      for (const [name, work] of undo.toReversed()) await cx.step(name, work);
      return `given back: ${why}`;
    };

    const { shelf } = await cx.step("reserve", () => shop.reserve(item, key("reserve")));
    undo.push(["release", () => shop.release(shelf, key("release"))]);
    try {
      const { receipt } = await cx.step("charge", () => shop.charge(cents, key("charge")));
      undo.push(["refund", () => shop.refund(receipt, key("refund"))]);
      // An hour in which the customer may cancel. The job parks: no slot, no thread and no process waits.
      await cx.sleep("1h");
      const boxes = await cx.waitSignal<number>("packed", { timeout: "3d" });
      if (boxes === undefined) return await giveBack("the warehouse did not answer");
      await cx.step("ship", () => shop.ship(shelf, boxes, key("ship")));
      return `shipped in ${boxes} boxes`;
    } catch (error) {
      // A step that failed for good; others are retried.
      if (error instanceof StepError && error.category === "permanent") return await giveBack(error.message);
      throw error;
    }
  };
}

/** A shop that prints what it does. */
export const printing: Shop = {
  async reserve(item) {
    console.log(`reserve ${item}`);
    return { shelf: `shelf of ${item}` };
  },
  async charge(cents) {
    if (cents > 100_000) throw new Permanent("the card has a limit", { code: "card_limit" });
    console.log(`charge ${cents} cents`);
    return { receipt: `receipt of ${cents}` };
  },
  async ship(shelf, boxes) {
    console.log(`ship ${boxes} boxes from the ${shelf}`);
  },
  async refund(receipt) {
    console.log(`refund the ${receipt}`);
  },
  async release(shelf) {
    console.log(`release the ${shelf}`);
  },
};

/** Runs a worker, and one order whose boxes are packed at once. */
export async function main(): Promise<void> {
  const client = new Windlass();
  const handle = await client.submit(order, { number: 1, item: "lamp", cents: 4900 }, { key: "order 1" });
  await handle.signal("packed", 2);
  console.log(`order 1 is job ${handle.id}; it ships in an hour: curl ${client.http.url}/dev/advance --json '{"by": "1h"}'`);
  await runUntilSignal(client.worker({ concurrency: 20 }).on(order, orders(printing)));
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? "").href) await main();
