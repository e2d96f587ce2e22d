/** Schedules of a client, in virtual time. */

import assert from "node:assert/strict";
import { type TestContext, describe, test } from "node:test";

import { ApiError, SchemaError, type StandardSchemaV1, Windlass, defineJob } from "../src/index.js";
import { DevServer, TestServer } from "../src/testing/index.js";
import { quiet } from "./support/support.js";

const report = defineJob<{ of: string }, string>("report", { queue: "slow", timeouts: { lifetime: "30d" } });

async function start(t: TestContext): Promise<DevServer> {
  const dev = await DevServer.start();
  t.after(() => dev.close());
  return dev;
}

const isNotFound = (error: unknown): boolean => error instanceof ApiError && error.code === "not_found";

describe("schedules", { concurrency: 4 }, () => {
  test("a schedule is created, changed, paused, resumed, triggered, deleted and restored", async (t) => {
    const { client } = await start(t);
    const { schedules } = client;
    const options = { cron: "30 2 * * *", timezone: "Europe/Berlin", overlap: "skip", missed: "all", job: report.child({ of: "sales" }) } as const;
    const created = await schedules.put("nightly.report", options);
    assert.deepEqual(
      [created.name, created.cron, created.timezone, created.overlap, created.missed, created.changed],
      ["nightly.report", "30 2 * * *", "Europe/Berlin", "skip", "all", true],
    );
    assert.deepEqual([created.job.type, created.job.queue, created.job.payload], ["report", "slow", { of: "sales" }]);
    assert.equal(created.next_runs.length, 5);
    assert.equal((await schedules.put("nightly.report", options)).changed, false, "the same again changes nothing");
    const every = await schedules.put("nightly.report", { every: "90s", job: report.child({ of: "stock" }, { priority: "high" }) });
    assert.deepEqual([every.cron, every.every, every.job.payload], [null, "1m30s", { of: "stock" }]);
    assert.deepEqual(await schedules.get("nightly.report"), without(every));

    const paused = await schedules.pause("nightly.report", { reason: "the warehouse is counted", expires: "2h" });
    assert.equal(paused.paused?.reason, "the warehouse is counted");
    assert.equal(Date.parse(paused.paused?.expires_at ?? "") - Date.parse(paused.paused?.at ?? ""), 7_200_000);
    assert.equal((await schedules.resume("nightly.report", { reason: "it is counted" })).paused, null);
    const at = new Date(Date.parse(paused.paused?.at ?? "") + 1000);
    assert.equal((await schedules.pause("nightly.report", { expires: at })).paused?.expires_at, at.toISOString());
    await schedules.resume("nightly.report");

    const handle = await schedules.trigger("nightly.report", report);
    assert.deepEqual([handle.submitted?.type, handle.submitted?.queue], ["report", "slow"]);
    assert.equal((await schedules.get("nightly.report")).last_job, handle.id);

    await schedules.delete("nightly.report");
    await assert.rejects(schedules.get("nightly.report"), isNotFound);
    await assert.rejects(schedules.delete("nightly.report"), isNotFound);
    assert.deepEqual((await schedules.list()).map(({ name }) => name), []);
    assert.deepEqual((await schedules.list({ deleted: true })).map(({ name }) => name), ["nightly.report"]);
    assert.equal((await schedules.restore("nightly.report")).every, "1m30s");
    await assert.rejects(schedules.trigger("other"), isNotFound);
  });

  test("runs submit jobs, whose results are read", async (t) => {
    const dev = await start(t);
    const { client } = dev;
    await using worker = client.worker({ logger: quiet });
    const ran: string[] = [];
    worker.on(report, ({ of }, cx) => {
      ran.push(of);
      return `${of} of ${cx.job.id}`;
    });
    await worker.start();
    const now = await dev.now();
    await client.schedules.put("hourly", { every: "1h", job: report.child({ of: "hourly" }) });
    await client.schedules.put("once", { at: new Date(now.getTime() + 90 * 60_000), job: report.child({ of: "once" }) });
    await dev.advance("3h");
    assert.deepEqual(ran, ["hourly", "once", "hourly", "hourly"]);
    const { last_job, submitted } = await client.schedules.get("hourly");
    assert.equal(submitted, 3);
    assert.equal(await client.handle(report, last_job!).result(), `hourly of ${last_job}`);
    const triggered = await client.schedules.trigger("once", report);
    assert.equal(await triggered.result({ timeout: "10s" }), `once of ${triggered.id}`);
  });

  test("a list has all pages", async (t) => {
    const { client } = await start(t);
    const pages: (string | null)[] = [];
    // Two in a page, as if there were thousands.
    const small: typeof fetch = async (input, init) => {
      const url = new URL(String(input));
      if (url.pathname.endsWith("/schedules")) {
        url.searchParams.set("limit", "2");
        pages.push(url.searchParams.get("cursor"));
      }
      return await fetch(url, init);
    };
    const names = ["a", "b", "c", "d", "e"];
    await Promise.all(names.map((name) => client.schedules.put(name, { every: "1h", job: report.child({ of: name }) })));
    const paged = new Windlass({ url: client.http.url, fetch: small });
    assert.deepEqual((await paged.schedules.list()).map(({ name }) => name), names);
    assert.equal(pages.length, 3);
  });

  test("payloads are checked here, and the rest by the server", async (t) => {
    const { client } = await start(t);
    const refuses: StandardSchemaV1<string> = { "~standard": { version: 1, vendor: "test", validate: () => ({ issues: [{ message: "no" }] }) } };
    const checked = defineJob("checked", { payload: refuses });
    await assert.rejects(client.schedules.put("s", { every: "1h", job: checked.child("x") }), SchemaError);
    const isRefused = (error: unknown) => error instanceof ApiError && error.status === 422;
    await assert.rejects(client.schedules.put("s", { cron: "61 * * * *", job: report.child({ of: "x" }) }), isRefused);
    await assert.rejects(client.schedules.put("s", { every: "1h", job: report.child({ of: "x" }, { key: "k" }) }), isRefused);
    // @ts-expect-error a timing is one of the three
    await assert.rejects(client.schedules.put("s", { every: "1h", cron: "@daily", job: report.child({ of: "x" }) }), isRefused);
  });

  test("a schedule belongs to a tenant", async (t) => {
    const server = await TestServer.start();
    t.after(() => server.kill());
    const { schedules } = new Windlass({ url: server.url });
    await schedules.put("s", { every: "1h", job: report.child({ of: "x" }, { tenant: "acme" }) });
    await schedules.put("s", { every: "2h", job: report.child({ of: "x" }, { tenant: "beta" }) });
    await assert.rejects(schedules.get("s"), isNotFound);
    const acme = { tenant: "acme" };
    assert.equal((await schedules.get("s", acme)).every, "1h");
    assert.equal((await schedules.pause("s", { ...acme, reason: "r" })).paused?.reason, "r");
    assert.equal((await schedules.resume("s", acme)).paused, null);
    assert.equal((await schedules.trigger("s", report, acme)).submitted?.tenant, "acme");
    await schedules.delete("s", acme);
    assert.equal((await schedules.restore("s", acme)).tenant, "acme");
  });
});

/** A schedule without what only an answer to a change has. */
function without({ changed: _, ...schedule }: { changed?: boolean }): object {
  return schedule;
}
