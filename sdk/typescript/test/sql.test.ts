/** Submissions in a transaction of PostgreSQL. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { Windlass, defineJob, submitInTx } from "../src/index.js";
import { TestServer } from "../src/testing/index.js";
import { Psql, startPostgres } from "./support/postgres.js";
import { quiet, until } from "./support/support.js";

test("a job exists exactly if the transaction commits", async (t) => {
  const folder = startPostgres(t);
  await using server = await TestServer.start({ store: `postgres:///postgres?user=windlass&host=${folder}` });
  const client = new Windlass({ url: server.url });
  const mail = defineJob<{ to: string }, unknown>("mail", { queue: "mail", retry: { maxAttempts: 5, initialDelay: "1s" } });
  const bytes = defineJob<Uint8Array, number>("bytes");
  const exists = async (id: string) => {
    const found = await client.http.ask<{ id: string }>({ method: "GET", path: `/jobs/${id}` }).catch((error: { status?: number }) => {
      assert.equal(error.status, 404);
    });
    return found?.id === id;
  };
  const db = new Psql(t, folder);
  await db.query("BEGIN");
  const rolledBack = await submitInTx(db, mail, { to: "cleo" });
  await db.query("ROLLBACK");
  await db.query("BEGIN");
  const first = await submitInTx(db, mail, { to: "O'Ädä 😀" }, { key: "order 17", delay: "1ms", tags: { a: "b" } });
  const again = await submitInTx(db, mail, { to: "O'Ädä 😀" }, { key: "order 17" });
  const sent = await submitInTx(db, bytes, new Uint8Array([1, 2, 3]));
  assert.equal(await exists(first), false);
  await db.query("COMMIT");
  assert.equal(again, first);
  await until("the jobs exist", async () => (await exists(first)) && (await exists(sent)));
  assert.equal(await exists(rolledBack), false);
  await using worker = client.worker({ logger: quiet });
  worker.on(mail, (payload, { job }) => [payload, job.key, job.queue, job.maxAttempts, job.tags]).on(bytes, (payload) => payload.length);
  await worker.start();
  assert.deepEqual(await client.handle(mail, first).result({ timeout: "60s" }), [{ to: "O'Ädä 😀" }, "order 17", "mail", 5, { a: "b" }]);
  assert.equal(await client.handle(bytes, sent).result({ timeout: "60s" }), 3);
});
