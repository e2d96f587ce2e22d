/** Push adapters in the frameworks themselves: Express, Hono, and route handlers as Next.js has them. */

import assert from "node:assert/strict";
import type { RequestListener } from "node:http";
import { type TestContext, describe, test } from "node:test";

import { getRequestListener } from "@hono/node-server";
import express from "express";
import { Hono } from "hono";

import { defineJob } from "../src/index.js";
import { DurablePush } from "../src/push/durable.js";
import { type Push, type PushAnswer, expressPush, honoPush, nextPush } from "../src/push/index.js";
import { type HeaderLines, linesOf } from "../src/webhooks.js";
import { server } from "./support/support.js";
import { CALLS_THIS_MACHINE, listen, secretOf } from "./support/web.js";

/** A route of Next.js: `app/work/route.ts` exports a function for each method. */
interface NextRoute {
  POST(request: Request, context: { params: Promise<Record<string, string | string[]>> }): Response | Promise<Response>;
}

/** Programs of each framework that have a push at `/work`. */
const FRAMEWORKS: Record<string, (push: Push) => RequestListener> = {
  express: (push) => {
    const app = express();
    app.post("/work", expressPush(push));
    app.use(express.json());
    return app;
  },
  "express, with a raw body": (push) => {
    const app = express();
    app.post("/work", express.raw({ type: () => true }), expressPush(push));
    return app;
  },
  hono: (push) => getRequestListener(new Hono().post("/work", honoPush(push)).fetch),
  "a route handler": (push) => {
    const route: NextRoute = { POST: nextPush(push) };
    return getRequestListener((request) => route.POST(request, { params: Promise.resolve({}) }));
  },
};

/** Keeps the pushes that it gets. */
class Watched extends DurablePush {
  readonly seen: { body: Uint8Array; headers: Record<string, string> }[] = [];

  override handle(body: Uint8Array, headers: HeaderLines, signal: AbortSignal): Promise<PushAnswer> {
    this.seen.push({ body, headers: Object.fromEntries(linesOf(headers)) });
    return super.handle(body, headers, signal);
  }
}

const order = defineJob<number, unknown>("order", { queue: "durable", retry: { strategy: "constant", initialDelay: "1ms", jitter: 0 } });
const greet = defineJob<string, string>("greet", { queue: "plain" });

/** A framework's program on a server that pushes to it. */
async function start(t: TestContext, framework: (push: Push) => RequestListener) {
  const { client, store } = await server(t, CALLS_THIS_MACHINE);
  let listener: RequestListener | undefined;
  const url = `${await listen(t, (request, response) => listener?.(request, response))}/work`;
  const push = new Watched({ secret: secretOf(store, url, "--push") });
  listener = framework(push);
  const target = (queue: string, durable: boolean) =>
    client.http.ask({ method: "PUT", path: `/queues/${queue}`, body: JSON.stringify({ push: { url, durable } }) });
  await Promise.all([target("durable", true), target("plain", false)]);
  return { client, push, url };
}

describe("frameworks", { concurrency: 4 }, () => {
  for (const [name, framework] of Object.entries(FRAMEWORKS)) {
    test(`${name}: pushed jobs run, with durable steps, and calls that are not signed do not`, async (t) => {
      const { client, push, url } = await start(t, framework);
      const ran: string[] = [];
      push
        .on(greet, (name) => `hello ${name}`)
        .durable(order, async (id, cx) => {
          const seat = await cx.step("reserve", () => ran.push("reserve") && id * 2);
          await cx.sleep("10ms");
          const paid = await cx.waitSignal<number>("paid");
          await cx.step("ship", () => void ran.push("ship"));
          if (cx.job.failures === 0) throw new Error("once");
          return { seat, paid };
        });
      const handle = await client.submit(order, 21);
      await handle.signal("paid", 500);
      assert.deepEqual(await handle.result({ timeout: "60s" }), { seat: 42, paid: 500 });
      assert.deepEqual(ran, ["reserve", "ship"], "each step ran once");
      assert.equal(await (await client.submit(greet, "wörld")).result({ timeout: "60s" }), "hello wörld");

      const { body, headers } = push.seen.at(-1)!;
      const changed = body.with(-2, 0x21);
      const { "webhook-signature": _, ...unsigned } = headers;
      const wrong: [Uint8Array, Record<string, string>][] = [
        [changed, headers],
        [body, unsigned],
        [body, { ...headers, "windlass-job-type": "order" }],
      ];
      for (const [body, { host, "content-length": length, connection, ...headers }] of wrong) {
        const answer = await fetch(url, { method: "POST", headers, body: new Uint8Array(body) });
        // Not a 4xx, which would fail the job permanently.
        assert.equal(answer.status, 500);
        assert.match(await answer.text(), /signed/);
      }
      assert.deepEqual(ran, ["reserve", "ship"]);
    });
  }

  test("a body that was parsed before is refused with the reason", async (t) => {
    const { client, push, url } = await start(t, (push) => {
      const app = express();
      app.use(express.json());
      app.post("/work", expressPush(push));
      return app;
    });
    const job = defineJob<{ name: string }, string>("greet", { queue: "plain", retry: { maxAttempts: 1 } });
    push.on(job, ({ name }) => name);
    const handle = await client.submit(job, { name: "ada" });
    await assert.rejects(handle.result({ timeout: "60s" }), /responded with 500/);
    const answer = await fetch(url, { method: "POST", headers: { "content-type": "application/json" }, body: "{}" });
    assert.match(await answer.text(), /add this route before `express.json\(\)`/);
    assert.equal(push.seen.length, 0);
  });
});
