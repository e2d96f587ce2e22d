/** Schemas of zod and valibot, through their common interface: checked at submission, at the handler and at the result. */

import assert from "node:assert/strict";
import { describe, test } from "node:test";

import { toJsonSchema } from "@valibot/to-json-schema";
import * as v from "valibot";
import { z } from "zod";

import { ApiError, JobFailed, type JobDefinition, SchemaError, type StandardSchemaV1, defineJob } from "../src/index.js";
import { quiet, server } from "./support/support.js";

/** What handlers get: the schemas convert the text of `at`. */
interface Order {
  id: number;
  at: Date;
}
type Sent = { id: number; at: string };
type OrderJob = JobDefinition<Sent, Order, { total: number }, { total: number }>;

const ofZod: OrderJob = defineJob("zod.order", {
  payload: z.object({ id: z.int().positive(), at: z.iso.datetime().transform((text) => new Date(text)) }),
  result: z.object({ total: z.number() }),
});

const ofValibot: OrderJob = defineJob("valibot.order", {
  payload: v.object({
    id: v.pipe(v.number(), v.integer(), v.minValue(1)),
    at: v.pipe(v.string(), v.isoTimestamp(), v.transform((text) => new Date(text))),
  }),
  result: v.object({ total: v.number() }),
});

/** For the server; what is read of a schema is what clients send. */
const JSON_SCHEMAS: Record<string, object> = {
  "valibot.order": toJsonSchema(v.object({ id: v.pipe(v.number(), v.integer()), at: v.string() })),
};

describe("schemas", { concurrency: 2 }, () => {
  for (const job of [ofZod, ofValibot]) {
    test(`${job.name}: values are converted, and those that do not match are refused`, async (t) => {
      const { client } = await server(t);
      await using worker = client.worker({ logger: quiet });
      worker.on(job, ({ id, at }) => {
        assert.ok(at instanceof Date);
        return (id === 13 ? { sum: id } : { total: id + at.getUTCFullYear() }) as { total: number };
      });
      await worker.start();
      const at = "2030-01-31T12:00:00Z";
      assert.deepEqual(await (await client.submit(job, { id: 7, at })).result({ timeout: "60s" }), { total: 2037 });

      await assert.rejects(client.submit(job, { id: 1.5, at: "now" }), (error) => {
        assert.ok(error instanceof SchemaError);
        assert.deepEqual(error.issues.map(({ path }) => pathOf(path)).sort(), ["at", "id"]);
        return /^the payload of \S+ does not match its schema: (id|at): /.test(error.message);
      });
      await assert.rejects(client.submitAll([job.child({ id: 0, at })]), SchemaError);

      const untyped = await client.submit(defineJob(job.name), { id: "7" });
      await assert.rejects(untyped.result({ timeout: "60s" }), codeIs("payload_unreadable"));
      const wrong = await client.submit(job, { id: 13, at });
      await assert.rejects(wrong.result({ timeout: "60s" }), codeIs("result_unwritable"));

      const payload = JSON_SCHEMAS[job.name];
      await client.registerSchemas(job, payload === undefined ? {} : { payload, result: toJsonSchema(v.object({ total: v.number() })) });
      const refused = client.submit(defineJob(job.name), { id: "7" });
      await assert.rejects(refused, (error) => error instanceof ApiError && error.status === 422);
      assert.deepEqual(await (await client.submit(job, { id: 8, at })).result({ timeout: "60s" }), { total: 2038 });
    });
  }
});

function pathOf(path: StandardPath): string {
  return (path ?? []).map((part) => String(typeof part === "object" ? part.key : part)).join(".");
}
type Issues = Extract<Awaited<ReturnType<StandardSchemaV1["~standard"]["validate"]>>, { issues: readonly unknown[] }>["issues"];
type StandardPath = Issues[number]["path"];

function codeIs(code: string): (error: unknown) => boolean {
  return (error) => error instanceof JobFailed && error.error?.code === code;
}
