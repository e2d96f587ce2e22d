/** The fixture and the matchers, as programs use them: with the published package. */

import { Permanent, defineJob } from "@windlass/sdk";
import { test } from "@windlass/sdk/vitest";
import { describe, expect } from "vitest";

const remind = defineJob<number, string[]>("remind", { timeouts: { lifetime: "90d" } });
const broken = defineJob<string>("broken", { retry: { maxAttempts: 2, initialDelay: "1h", jitter: 0 } });

const DAY_MS = 86_400_000;

describe("the fixture", () => {
  test("moves the clock by a month at once", async ({ windlass }) => {
    await windlass.work((worker) =>
      worker.on(remind, async (days, cx) => {
        const first = await cx.step("first", () => "one");
        await cx.sleep(`${days}d`);
        return [first, await cx.step("second", () => "two")];
      }),
    );
    const began = await windlass.now();
    const handle = await windlass.run(remind, 30);
    await expect(handle).toHaveState("waiting");
    await expect(handle).not.toHaveCompleted();
    await expect(handle).toHaveSavedStep("first", "one");
    await expect(handle).not.toHaveSavedStep("second");
    expect(await windlass.advance("30d")).toBe(true);
    await expect(handle).toHaveCompleted(["one", "two"]);
    await expect(handle).toHaveCompleted(expect.arrayContaining(["two"]));
    expect((await windlass.now()).getTime() - began.getTime()).toBe(30 * DAY_MS);
  });

  test("crashes a worker between two steps", async ({ windlass }) => {
    const ran: string[] = [];
    await windlass.work((worker) =>
      worker.on(remind, async (_, cx) => {
        await cx.step("first", () => void ran.push("first"));
        await cx.step("second", () => void ran.push("second"));
        return ran;
      }),
    );
    await windlass.crash({ afterStep: "first" });
    const handle = await windlass.submit(remind, 1);
    await windlass.advance("1h");
    await expect(handle).toHaveCompleted(["first", "second"]);
    expect((await handle.get()).crashes).toBe(1);
  });

  let ids: string[] = [];

  test("has no jobs at first: one", async ({ windlass }) => {
    const { jobs } = await windlass.client.http.ask<{ jobs: { id: string }[] }>({ method: "GET", path: "/jobs" });
    expect(jobs).toEqual([]);
    await windlass.work((worker) => worker.on(broken, () => {}), { name: "left behind" });
    const handle = await windlass.submit(remind, 1);
    ids = [...ids, handle.id];
  });

  test("has no jobs at first: two, whose predecessor left one behind", async ({ windlass }) => {
    const { jobs } = await windlass.client.http.ask<{ jobs: { id: string }[] }>({ method: "GET", path: "/jobs" });
    expect(jobs).toEqual([]);
    expect(ids).toHaveLength(1);
    const { workers } = await windlass.client.http.ask<{ workers: { name: string }[] }>({ method: "GET", path: "/workers" });
    expect(workers.map(({ name }) => name)).not.toContain("left behind");
  });

  test("stops a handler that never ends with its test", async ({ windlass }) => {
    let start = (): void => {};
    const started = new Promise<void>((resolve) => {
      start = resolve;
    });
    await windlass.work((worker) =>
      worker.on(remind, () => {
        start();
        return new Promise(() => {});
      }),
    );
    await windlass.submit(remind, 1);
    await started;
  });
});

test("the steps of a job are listed, also those that failed permanently", async ({ windlass }) => {
  await windlass.work((worker) =>
    worker.on(remind, async (days, cx) => {
      await cx.step("count", () => days);
      await cx.checkpoint({ half: true });
      const bad = () => {
        throw new Permanent("no such card", { code: "no_card" });
      };
      await cx.step("charge", bad).catch(() => {});
      await cx.sleep("1h");
      return [await cx.step("count", () => "again")];
    }),
  );
  const handle = await windlass.run(remind, 2);
  const failure = { category: "permanent", code: "no_card", message: "no such card" };
  const first = [{ name: "count", value: 2 }, { name: "charge", failure: expect.objectContaining(failure) }];
  expect(await handle.steps()).toEqual(first);
  await windlass.advance("1h");
  expect(await handle.steps()).toEqual([...first, { name: "count#2", value: "again" }]);
  await expect(handle).not.toHaveSavedStep("charge");
  await expect(expect(handle).toHaveSavedStep("charge")).rejects.toThrow(/charge, which failed: no such card/);
  await expect(handle).toHaveCompleted(["again"]);
});

describe.concurrent("tests side by side", () => {
  test("the first has the server", async ({ windlass }) => {
    await expect(await windlass.submit(remind, 1)).toHaveState("scheduled");
  });

  test.fails("the second is refused, instead of resetting the first", async ({ windlass }) => {
    await windlass.settle();
  });
});

describe("a fixture in a test of its own", () => {
  const extended = test.extend<{ workerOfReminders: string[] }>({
    workerOfReminders: async ({ windlass }, use) => {
      const ran: string[] = [];
      await windlass.work((worker) => worker.on(remind, (days) => [...ran, `${days}`]));
      await use(ran);
    },
  });

  extended("builds on the server", async ({ windlass, workerOfReminders }) => {
    workerOfReminders.push("before");
    await expect(await windlass.run(remind, 7)).toHaveCompleted(["before", "7"]);
  });
});

describe("the matchers", () => {
  test("tell failures apart", async ({ windlass }) => {
    await windlass.work((worker) =>
      worker.on(broken, (how) => {
        if (how === "permanently") throw new Permanent("no such card", { code: "no_card" });
        throw new Error("the network is down");
      }),
    );
    const failed = await windlass.run(broken, "permanently");
    await expect(failed).toHaveFailed();
    await expect(failed).toHaveFailed("no_card");
    await expect(failed).toHaveFailed({ state: "failed", category: "permanent", message: /such/ });
    await expect(failed).not.toHaveFailed("other");
    await expect(failed).not.toHaveFailed({ message: "network" });
    await expect(failed).not.toHaveCompleted();
    const retried = await windlass.run(broken, "for now");
    await expect(retried).toHaveState("retrying");
    await expect(retried).not.toHaveFailed();
    await windlass.advance("1h");
    await expect(retried).toHaveFailed({ state: "dead_letter", message: "the network is down" });
  });

  test("say why a job is not as expected", async ({ windlass }) => {
    const handle = await windlass.submit(remind, 1, { delay: "1d" });
    await expect(expect(handle).toHaveCompleted()).rejects.toThrow(/expected job \S+ \(remind\) to have completed; it is delayed in attempt 0/);
    await expect(expect(handle).toHaveSavedStep("first", 1)).rejects.toThrow(/to have saved the step .*first.* with .*1.*; saved are: none/);
    await handle.cancel();
    await expect(handle).toHaveBeenCancelled();
    await expect(expect(handle).not.toHaveBeenCancelled()).rejects.toThrow(/not to have been cancelled/);
    await expect(expect("text").toHaveCompleted()).rejects.toThrow(/takes the handle of a job/);
    await windlass.work((worker) => worker.on(remind, () => ["done"]));
    const done = await windlass.run(remind, 1);
    await expect(expect(done).toHaveCompleted(["other"])).rejects.toThrow(/to have completed with .*other.*, it did with .*done/s);
  });
});
