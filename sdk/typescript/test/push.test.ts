/** Calls of a real server: pushed jobs and callbacks, with their signatures. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { JobFailed, Permanent, RetryAfter, defineJob, submitInTx } from "../src/index.js";
import { DurablePush } from "../src/push/durable.js";
import { type Callback, InvalidSignature, Push, type PushContext, expressPush, verify, verifyCallback } from "../src/push/index.js";
import { deferred, quiet, server } from "./support/support.js";
import { CALLS_THIS_MACHINE, listen, secretOf } from "./support/web.js";

test("a web program runs pushed jobs", async (t) => {
  const { client, store } = await server(t, CALLS_THIS_MACHINE);
  const greet = defineJob<string, string>("greet", { queue: "pushed", retry: { maxAttempts: 2, initialDelay: "1ms" } });
  let handle: ReturnType<typeof expressPush> | undefined;
  const url = `${await listen(t, (request, response) => void handle?.(request, response))}/work`;
  const seen: PushContext[] = [];
  const push = new Push({ secret: secretOf(store, url, "--push") }).on(greet, (name, cx) => {
    seen.push(cx);
    if (name === "bad") throw new Permanent("no");
    if (name === "later" && cx.attempt === 1) throw new RetryAfter("1s", "busy");
    return `hello ${name}`;
  });
  handle = expressPush(push);
  await client.http.ask({ method: "PUT", path: "/queues/pushed", body: JSON.stringify({ push: { url } }) });
  assert.equal(await (await client.submit(greet, "wörld 😀", { key: "k 1%" })).result({ timeout: "60s" }), "hello wörld 😀");
  assert.deepEqual([seen[0]?.key, seen[0]?.attempt, seen[0]?.type], ["k 1%", 1, "greet"]);
  await assert.rejects((await client.submit(greet, "bad")).result({ timeout: "60s" }), (error) => error instanceof JobFailed && error.state === "failed");
  assert.equal(await (await client.submit(greet, "later")).result({ timeout: "60s" }), "hello later");
});

test("a function of one request runs steps, sleeps, waits and spawns", async (t) => {
  const { client, store } = await server(t, CALLS_THIS_MACHINE);
  const defaults = { queue: "durable", retry: { strategy: "constant", maxAttempts: 3, initialDelay: "1ms", jitter: 0 } } as const;
  const order = defineJob<number, unknown>("order", defaults);
  const part = defineJob<number, number>("part", { queue: "durable" });
  const next = defineJob<string>("next", { queue: "other" });
  let handle: ReturnType<typeof expressPush> | undefined;
  const url = `${await listen(t, (request, response) => void handle?.(request, response))}/work`;
  const ran: string[] = [];
  const step = (name: string) => () => {
    ran.push(name);
    return name.toUpperCase();
  };
  const push = new DurablePush({ secret: secretOf(store, url, "--push") })
    .on(part, (n) => n * 10)
    .durable(order, async (id, cx) => {
      const first = await cx.step("first", async () => {
        await cx.stream(`order ${id}`);
        return step("a")();
      });
      const both = await Promise.all([cx.step("left", step("b")), cx.step("right", step("c"))]);
      const nested = await cx.step("outer", () => cx.step("inner", step("d")));
      await cx.sleep("20ms");
      const paid = await cx.waitSignal<number>("paid");
      const parts = await cx.all([part.child(1), part.child(2)]);
      if (cx.job.failures === 0) throw new Error("once");
      cx.submitOnCompletion(next.child("after"));
      return { first, both, nested, paid, parts };
    });
  assert.throws(() => push.durable(part, () => 1), /already/);
  assert.throws(() => push.on(order, () => 1), /already/);
  handle = expressPush(push);
  await client.http.ask({ method: "PUT", path: "/queues/durable", body: JSON.stringify({ push: { url, durable: true } }) });
  const submitted = await client.submit(order, 7);
  await submitted.signal("paid", 500);
  assert.deepEqual(await submitted.result({ timeout: "60s" }), { first: "A", both: ["B", "C"], nested: "D", paid: 500, parts: [10, 20] });
  assert.deepEqual(ran.sort(), ["a", "b", "c", "d"], "no step runs twice");
  const output: unknown[] = [];
  for await (const { chunk } of submitted.stream()) output.push(chunk);
  assert.deepEqual(output, ["order 7"]);
  const found = await client.http.ask<{ jobs: unknown[] }>({ method: "GET", path: "/jobs?type=next" });
  assert.equal(found.jobs.length, 1);
});

test("a callback is verified, and one that was changed is not", async (t) => {
  const { client, store } = await server(t, CALLS_THIS_MACHINE);
  const job = defineJob<number, number>("job");
  const called = deferred<{ body: Buffer; headers: Record<string, string> }>();
  const url = `${await listen(t, async (request, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    response.end();
    called.resolve({ body: Buffer.concat(chunks), headers: request.headers as Record<string, string> });
  })}/hook`;
  const secret = secretOf(store, url, "--tenant", "default");
  await using worker = client.worker({ logger: quiet });
  worker.on(job, (n) => n + 1);
  await worker.start();
  const handle = await client.submit(job, 1, { callbackUrl: url });
  const { body, headers } = await called.promise;
  const callback: Callback = await verifyCallback(body, headers, { secret });
  assert.deepEqual([callback.type, callback.data.id, callback.data.result], ["job.completed", handle.id, 2]);
  assert.ok(await verify(body, new Headers(headers), { secret: ["whsec_b3RoZXI=", secret] }));
  const wrong: [string | Uint8Array, Record<string, string>, object][] = [
    [body.toString().replace("completed", "completex"), headers, {}],
    [body, { ...headers, "windlass-event": "job.failed" }, {}],
    [body, { ...headers, "webhook-id": "other" }, {}],
    [body, { ...headers, "webhook-signature": "v1,AAAA v1,!!" }, {}],
    [body, {}, {}],
    [body, headers, { secret: "whsec_b3RoZXI=" }],
    [body, headers, { now: Date.now() + 301_000 }],
  ];
  for (const [body, headers, options] of wrong) {
    await assert.rejects(verify(body, headers, { secret, ...options }), InvalidSignature);
  }
});

test("a secret that is missing or empty is refused", async () => {
  const isMissing = { name: "TypeError", message: /missing or empty/ };
  for (const secret of ["", "whsec_", " ", [], ["whsec_c2VjcmV0", ""], undefined]) {
    assert.throws(() => new Push({ secret }), isMissing);
    // Also for a call that would be refused for another reason.
    await assert.rejects(verify("{}", {}, { secret }), isMissing);
    await assert.rejects(verifyCallback("{}", {}, { secret }), isMissing);
  }
  assert.throws(() => new Push({ secret: "whsec_?" }), /not `whsec_` and Base64/);
});

test("a submission in SQL names the job, its payload and its options", async () => {
  const calls: unknown[] = [];
  const client = {
    async query(text: string, values: unknown[]) {
      calls.push([text, ...values]);
      return { rows: [{ id: "the id" }] };
    },
  };
  const job = defineJob<unknown>("email.send", { queue: "mail" });
  assert.equal(await submitInTx(client, job, { to: "ada" }, { key: "order 17", schema: 'a"b' }), "the id");
  assert.equal(await submitInTx(async (text, values) => (await client.query(text, values)).rows, job, new Uint8Array([1])), "the id");
  assert.deepEqual(calls, [
    ['SELECT "a""b".submit($1::text, $2::text, $3::jsonb) AS id', "email.send", '{"to":"ada"}', '{"queue":"mail","idempotency_key":"order 17"}'],
    ['SELECT "windlass".submit($1::text, $2::bytea, $3::jsonb) AS id', "email.send", new Uint8Array([1]), '{"queue":"mail","content_type":"application/octet-stream"}'],
  ]);
});
