/** The LLM example, in virtual time: limits, budget, approval. */

import { test } from "@windlass/sdk/vitest";
import { expect } from "vitest";

import { type Model, ask, asking, echo, setLimits, summarise, summarising } from "../../examples/llm.js";

/** Ready jobs that wait for a limit are taken soon after the clock has moved. */
const PATIENTLY = { timeout: 60_000 };

/** The example's model, which notes when it was asked. */
function counted(now: () => Promise<Date>): { asked: Date[]; most: () => number; model: Model } {
  const asked: Date[] = [];
  let [running, most] = [0, 0];
  return {
    asked,
    most: () => most,
    model: {
      async ask(prompt, options) {
        running += 1;
        most = Math.max(most, running);
        asked.push(await now());
        running -= 1;
        return await echo.ask(prompt, options);
      },
    },
  };
}

test("a summary is written, approved and returned", async ({ windlass }) => {
  await setLimits(windlass.client);
  const { asked, most, model } = counted(() => windlass.now());
  await windlass.work((worker) => worker.on(summarise, summarising).on(ask, asking(model)), { concurrency: 20 });
  const handle = await windlass.run(summarise, { parts: ["one", "two", "three"] });
  await expect(handle).toHaveState("waiting");
  expect((await handle.get()).progress?.message).toBe("to be approved: summary of one; summary of two; summary of three");
  await handle.signal("approved", true);
  await windlass.settle();
  await expect(handle).toHaveCompleted("summary of one; summary of two; summary of three");
  expect(asked).toHaveLength(3);
  expect(most()).toBeLessThanOrEqual(2);
});

test("calls wait for the rate, and beyond the budget for the next day", async ({ windlass }) => {
  await setLimits(windlass.client);
  // What earlier tests have spent counts for the day.
  await windlass.advance("1d");
  const { asked, model } = counted(() => windlass.now());
  await windlass.work((worker) => worker.on(summarise, summarising).on(ask, asking(model)), { concurrency: 1 });
  const handle = await windlass.run(summarise, { parts: ["a", "b", "c", "d", "e", "f", "g", "h", "i"] });
  expect(asked).toHaveLength(4); // in this minute
  await windlass.advance("1m");
  await expect.poll(() => asked.length, PATIENTLY).toBe(8); // for 80 cents
  await windlass.settle();
  await windlass.advance("5m");
  await windlass.settle();
  expect(asked).toHaveLength(8); // the rate would allow the ninth, the budget does not
  await windlass.advance("1d");
  await expect.poll(() => asked.length, PATIENTLY).toBe(9);
  await windlass.settle();
  const minutes = asked.map((at) => Math.round((at.getTime() - asked[0]!.getTime()) / 60_000));
  expect(minutes.slice(0, 8)).toEqual([0, 0, 0, 0, 1, 1, 1, 1]);
  await windlass.advance("3d");
  await expect(handle).toHaveCompleted(null); // it was not approved
});

test("a provider that is busy is asked again when it says so", async ({ windlass }) => {
  await setLimits(windlass.client);
  await windlass.advance("1d");
  const began = await windlass.now();
  const asked: number[] = [];
  const model: Model = {
    async ask(prompt, options) {
      asked.push((await windlass.now()).getTime() - began.getTime());
      return asked.length === 1 ? { retryAfter: "7m" } : await echo.ask(prompt, options);
    },
  };
  await windlass.work((worker) => worker.on(ask, asking(model)));
  const handle = await windlass.run(ask, { prompt: "summarise x" });
  await windlass.advance("10m");
  await expect(handle).toHaveCompleted("summary of x");
  expect(asked).toEqual([0, 7 * 60_000]);
});

test("an answer that was paid is not asked for again after a crash", async ({ windlass }) => {
  await setLimits(windlass.client);
  await windlass.advance("1d");
  const { asked, model } = counted(() => windlass.now());
  await windlass.work((worker) => worker.on(ask, asking(model)));
  await windlass.crash({ afterStep: "ask" });
  const handle = await windlass.submit(ask, { prompt: "summarise x" });
  await windlass.advance("1h");
  await expect(handle).toHaveCompleted("summary of x");
  expect(asked).toHaveLength(1);
});
