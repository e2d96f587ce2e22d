/** Durable steps on a real server: what happens once, what replays, and what changed code leads to. */

import assert from "node:assert/strict";
import { describe, test } from "node:test";

import { type ApiError, ChildFailed, JobFailed, Permanent, StepError, Windlass, defineJob } from "../src/index.js";
import { quiet, server, until } from "./support/support.js";

const fast = { retry: { maxAttempts: 5, initialDelay: "1ms", maxDelay: "1ms" } } as const;

describe("durable", { concurrency: 8 }, () => {
  test("steps, sleeps and signals survive failed attempts", async (t) => {
    const { client } = await server(t);
    const job = defineJob<{ id: number }, unknown>("order", fast);
    const ran: string[] = [];
    await using worker = client.worker({ logger: quiet });
    worker.on(job, async ({ id }, cx) => {
      const seat = await cx.step("reserve", () => {
        ran.push("reserve");
        return { seat: id * 2, at: new Date(0) };
      });
      const [now, random, uuid] = [await cx.now(), await cx.random(), await cx.uuid()];
      await cx.sleep("30ms");
      const paid = await cx.waitSignal<{ cents: number }>("paid", { timeout: "60s" });
      const never = await cx.waitSignal("never", { timeout: "20ms" });
      const again = await cx.step("charge", () => {
        ran.push("charge");
        if (ran.filter((name) => name === "charge").length < 3) throw new Error("for now");
        return "charged";
      });
      ran.push(JSON.stringify([now, random, uuid]));
      return { seat, paid, never: never ?? null, again };
    });
    await worker.start();
    const handle = await client.submit(job, { id: 4 });
    await handle.signal("paid", { cents: 5 });
    const result = await handle.result({ timeout: "60s" });
    assert.deepEqual(result, { seat: { seat: 8, at: "1970-01-01T00:00:00.000Z" }, paid: { cents: 5 }, never: null, again: "charged" });
    assert.equal(ran.filter((name) => name === "reserve").length, 1);
    assert.equal((await handle.get()).failures, 2);
  });

  test("children run once and their results come in order", async (t) => {
    const { client } = await server(t);
    const page = defineJob<number, number>("page", { retry: { maxAttempts: 1 } });
    const title = defineJob<string, string>("title");
    const book = defineJob<number, unknown>("book", fast);
    let pages = 0;
    await using worker = client.worker({ logger: quiet, concurrency: 5 });
    worker
      .on(page, (number) => {
        pages += 1;
        if (number === 13) throw new Permanent("unlucky");
        return number * 10;
      })
      .on(title, (text) => text.toUpperCase())
      .on(book, async (count, cx) => {
        const numbers = Array.from({ length: count }, (_, index) => page.child(index + 1));
        const results = await cx.all(numbers);
        const [name, last] = await cx.all([title.child("x"), page.child(99)]);
        const settled = await cx.allSettled([page.child(13), page.child(2)], { name: "mixed" });
        const failed = settled[0];
        assert.ok(failed.status === "rejected" && failed.reason instanceof ChildFailed);
        if (cx.job.failures === 0) throw new Error("once more");
        return [results, name, last, failed.reason.state, settled[1]];
      });
    await worker.start();
    const result = await (await client.submit(book, 3)).result({ timeout: "60s" });
    assert.deepEqual(result, [[10, 20, 30], "X", 990, "failed", { status: "fulfilled", value: 20 }]);
    assert.equal(pages, 6);
  });

  test("a child that fails fails `all`, and a thousand children are one group", async (t) => {
    const { client } = await server(t);
    const child = defineJob<number, number>("child", { retry: { maxAttempts: 1 } });
    const parent = defineJob<number[], number>("parent", { retry: { maxAttempts: 1 } });
    await using worker = client.worker({ logger: quiet, concurrency: 100 });
    worker
      .on(child, (number) => {
        if (number < 0) throw new Permanent("negative");
        return number;
      })
      .on(parent, async (numbers, cx) => (await cx.all(numbers.map((number) => child.child(number)))).reduce((a, b) => a + b, 0));
    await worker.start();
    const bad = await client.submit(parent, [1, -1]);
    await assert.rejects(bad.result({ timeout: "60s" }), (error) => error instanceof JobFailed && /negative/.test(error.error!.message));
    const many = await client.submit(parent, Array.from({ length: 1000 }, () => 2));
    assert.equal(await many.result({ timeout: "60s" }), 2000);
  });

  test("waits side by side park on the first, and a step beside them continues", async (t) => {
    const { client } = await server(t);
    const job = defineJob<string, unknown>("race", fast);
    let slow = 0;
    await using worker = client.worker({ logger: quiet });
    worker.on(job, async (what, cx) => {
      if (what === "any") {
        const first = await cx.waitAny(["paid", "refused"], { timeout: "60s" });
        await cx.step("after", () => 1);
        if (cx.job.failures === 0) throw new Error("once more");
        return first;
      }
      const first = await cx.race(
        async () => {
          if (what === "step") return await cx.step("quick", () => "done");
          await cx.step("slow", async (signal) => {
            slow += 1;
            await new Promise((resolve) => signal.addEventListener("abort", resolve));
          });
          return "never";
        },
        async () => {
          await cx.sleep(what === "step" ? "1h" : "30ms");
          return "timeout";
        },
      );
      await cx.step("after", () => 1);
      if (cx.job.failures === 0) throw new Error("once more");
      return first;
    });
    await worker.start();
    const any = await client.submit(job, "any");
    await until("it waits", async () => (await any.get()).state === "waiting");
    await any.signal("refused", 3);
    assert.deepEqual(await any.result({ timeout: "60s" }), { name: "refused", value: 3 });
    const step = await client.submit(job, "step");
    assert.deepEqual(await step.result({ timeout: "60s" }), { side: "left", value: "done" });
    const timeout = await client.submit(job, "timeout");
    assert.deepEqual(await timeout.result({ timeout: "60s" }), { side: "right", value: "timeout" });
    assert.equal(slow, 1);
  });

  test("changed code fails the job, unless the worker is lenient", async (t) => {
    const { client } = await server(t);
    const job = defineJob<null, string>("changing");
    const first = client.worker({ logger: quiet }).on(job, async (_, cx) => {
      await cx.step("a", () => 1);
      await cx.step("b", () => 2);
      await cx.waitSignal("go");
      return "first";
    });
    await first.start();
    const handles = [await client.submit(job, null), await client.submit(job, null)];
    for (const handle of handles) await until("it waits", async () => (await handle.get()).state === "waiting");
    await first.stop();
    let ran = 0;
    const changed = async (_: null, cx: import("../src/index.js").Cx) => {
      await cx.step("a", () => 1);
      await cx.step("new", () => (ran += 1));
      await cx.step("b", () => 2);
      return "second";
    };
    const strict = client.worker({ logger: quiet, changedWait: "50ms" }).on(job, changed);
    await strict.start();
    await handles[0]!.signal("go");
    await assert.rejects(handles[0]!.result({ timeout: "60s" }), (error) => {
      assert.ok(error instanceof JobFailed);
      assert.equal(error.error?.code, "steps_changed");
      return true;
    });
    assert.equal(ran, 0);
    await strict.stop();
    await using lenient = client.worker({ logger: quiet, lenientSteps: true });
    lenient.on(job, changed);
    await lenient.start();
    await handles[1]!.signal("go");
    assert.equal(await handles[1]!.result({ timeout: "60s" }), "second");
    assert.equal(ran, 1);
  });

  test("an error of a step has the same shape in every attempt, and a caught one is remembered", async (t) => {
    const { client } = await server(t);
    const job = defineJob<null, unknown>("caught", fast);
    let primary = 0;
    const seen: unknown[] = [];
    await using worker = client.worker({ logger: quiet });
    worker.on(job, async (_, cx) => {
      try {
        await cx.step("primary", () => {
          primary += 1;
          throw Object.assign(new TypeError("busy"), { code: "EBUSY" });
        });
      } catch (error) {
        assert.ok(error instanceof StepError);
        seen.push([error.name, error.category, error.code, error.message]);
      }
      const fallback = await cx.step("fallback", () => "b");
      if (cx.job.failures === 0) throw new Error("another error");
      return fallback;
    });
    await worker.start();
    assert.equal(await (await client.submit(job, null)).result({ timeout: "60s" }), "b");
    assert.equal(primary, 1);
    assert.deepEqual(seen, [["StepError", "temporary", "EBUSY", "busy"], ["StepError", "temporary", "EBUSY", "busy"]]);
  });

  test("an error that fails the attempt runs its step again, also by its text", async (t) => {
    const { client } = await server(t);
    const job = defineJob<string, number>("reopened", fast);
    const runs: Record<string, number> = {};
    await using worker = client.worker({ logger: quiet });
    worker.on(job, async (how, cx) => {
      let caught: Error | undefined;
      await cx
        .step("charge", () => {
          runs[how] = (runs[how] ?? 0) + 1;
          if (runs[how] < 2) throw new Error("no funds");
          return null;
        })
        .catch((error: Error) => {
          caught = error;
        });
      await cx.step("note", () => 1);
      if (caught !== undefined && how === "same") throw caught;
      if (caught !== undefined && how === "cause") throw new Error("charging", { cause: caught });
      if (caught !== undefined && how === "text") throw new Error(`charging: ${caught.message}`);
      if (caught !== undefined && how === "later") {
        cx.retryLater(caught);
        throw new Error("1 charge failed");
      }
      return runs[how]!;
    });
    await worker.start();
    for (const how of ["same", "cause", "text", "later"]) {
      assert.equal(await (await client.submit(job, how)).result({ timeout: "60s" }), 2, how);
    }
  });

  test("a child that is started and not awaited is spawned once", async (t) => {
    const { client } = await server(t);
    const mail = defineJob<string, string>("mail");
    const job = defineJob<null, string>("spawns", fast);
    let mails = 0;
    await using worker = client.worker({ logger: quiet });
    worker
      .on(mail, (to) => {
        mails += 1;
        return to;
      })
      .on(job, async (_, cx) => {
        const id = await cx.start(mail.child("ada"));
        await cx.start(mail.child("bob"));
        if (cx.job.failures === 0) throw new Error("once more");
        return id;
      });
    await worker.start();
    const id = await (await client.submit(job, null)).result({ timeout: "60s" });
    assert.equal(await client.handle(mail, id).result({ timeout: "60s" }), "ada");
    await until("both were sent", () => mails === 2);
    const jobs = await client.http.ask<{ jobs: unknown[] }>({ method: "GET", path: "/jobs?type=mail" });
    assert.equal(jobs.jobs.length, 2);
  });

  test("groups run side by side, and the first of a race wins in every attempt", async (t) => {
    const { client } = await server(t);
    const twice = defineJob<number, number>("twice");
    const job = defineJob<null, unknown>("side", fast);
    await using worker = client.worker({ logger: quiet });
    worker
      .on(twice, (number) => number * 2)
      .on(job, async (_, cx) => {
        const groups = await Promise.all([cx.all([twice.child(1)]), cx.all([twice.child(2)], { name: "second" })]);
        const first = await cx.race(() => cx.waitAny(["never"], { timeout: "1ms" }), () => cx.sleep("1h"));
        return [groups, first.side];
      });
    await worker.start();
    const handle = await client.submit(job, null);
    assert.deepEqual(await handle.result({ timeout: "60s" }), [[[2], [4]], "left"]);
  });

  test("schemas are checked by the server, and a token reads one job", async (t) => {
    const { client, server: started } = await server(t);
    const typed = defineJob<unknown, unknown>("typed");
    await client.registerSchemas(typed, { payload: { type: "integer" } });
    await assert.rejects(client.submit(typed, "one"), (error: ApiError) => error.status === 422);
    const { secret } = await client.http.ask<{ secret: string }>({ method: "POST", path: "/keys", body: '{"name":"boss","role":"admin"}' });
    const owner = new Windlass({ url: started.url, key: secret });
    const [mine, other] = [await owner.submit(typed, 1), await owner.submit(typed, 2)];
    const page = new Windlass({ url: started.url, key: await mine.token({ expires: "1h" }) });
    assert.equal((await page.handle(typed, mine.id).get()).id, mine.id);
    await assert.rejects(page.handle(typed, other.id).get(), (error: ApiError) => error.status === 401);
  });

  test("a checkpoint is found by the next attempt", async (t) => {
    const { client } = await server(t);
    const job = defineJob<number, number[]>("import", fast);
    const rows: number[] = [];
    await using worker = client.worker({ logger: quiet });
    worker.on(job, async (count, cx) => {
      for (let row = cx.lastCheckpoint<number>() ?? 0; row < count; row += 1) {
        if (row === 2 && cx.job.failures === 0) throw new Error("for now");
        rows.push(row);
        await cx.checkpoint(row + 1);
      }
      return rows;
    });
    await worker.start();
    assert.deepEqual(await (await client.submit(job, 4)).result({ timeout: "60s" }), [0, 1, 2, 3]);
  });

  test("a job moves between languages: records of a Rust worker are read", async (t) => {
    const { client } = await server(t);
    const job = defineJob<null, unknown>("moved");
    await client.submit(job, null);
    const body = JSON.stringify({ queues: [], types: ["moved"], concurrency: 1 });
    const { worker_id } = await client.http.ask<{ worker_id: string }>({ method: "POST", path: "/workers", body });
    const claim = JSON.stringify({ worker_id, limit: 1, wait: "20s" });
    type Claimed = { jobs: { id: string; fence: number }[] };
    const { id, fence } = (await client.http.ask<Claimed>({ method: "POST", path: "/claims", body: claim, waitMs: 20_000 })).jobs[0]!;
    const records = { reserve: { at: 0, value: 7 }, "sleep:": { at: 1, until: Date.now() - 1, lasts_ms: 1000 } };
    for (const [key, value] of Object.entries(records)) {
      const path = `/jobs/${id}/checkpoints/${encodeURIComponent(key)}`;
      await client.http.ask({ method: "PUT", path, body: JSON.stringify({ fence, worker_id, value }) });
    }
    await client.http.send({ method: "DELETE", path: `/workers/${worker_id}` });
    await using worker = client.worker({ logger: quiet });
    worker.on(job, async (_, cx) => {
      const seat = await cx.step("reserve", () => 0);
      await cx.sleep("1s");
      return [seat, await cx.step("next", () => 8)];
    });
    await worker.start();
    assert.deepEqual(await client.handle(job, id).result({ timeout: "60s" }), [7, 8]);
  });
});
