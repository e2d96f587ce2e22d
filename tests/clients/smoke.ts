// What a program does first with a generated client, against a real server: the types and the answers must fit.
import { strict as assert } from "node:assert";
import createClient from "openapi-fetch";
import type { components, paths } from "./windlass.js";

type Job = components["schemas"]["Job"];
const [url, key] = process.argv.slice(2) as [string, string];
const client = createClient<paths>({ baseUrl: url, headers: { Authorization: `Bearer ${key}` } });

function must<T>(answer: { data?: T; error?: unknown; response: Response }): T {
  if (answer.data === undefined) throw new Error(`${answer.response.status} ${JSON.stringify(answer.error)}`);
  return answer.data;
}

const submitted: Job = must(
  await client.POST("/api/v1/jobs", { body: { type: "email.send", queue: "mail", payload: { to: "ada@example.com" } } }),
);
assert.equal(submitted.state, "scheduled");
// What every answer has is not optional.
const started: string | null = submitted.started_at;
assert.equal(started, null);
assert.deepEqual(must(await client.GET("/api/v1/jobs")).jobs.map((job) => job.id), [submitted.id]);

const { worker_id } = must(await client.POST("/api/v1/workers", { body: { name: "generated" } }));
const claimed = must(await client.POST("/api/v1/claims", { body: { worker_id, wait: "1s" } }));
const [job] = claimed.jobs;
assert.ok(job);
const beat = must(await client.POST("/api/v1/heartbeats", { body: { worker_id, jobs: [{ id: job.id, fence: job.fence }] } }));
assert.equal(beat.jobs[0]?.directive, "continue");
const reported = must(
  await client.POST("/api/v1/outcomes", {
    body: { worker_id, outcomes: [{ id: job.id, fence: job.fence, outcome: "completed", result: 7 }] },
  }),
);
assert.equal(reported.outcomes[0]?.status, "applied");

const path = { id: submitted.id };
const ended = must(await client.GET("/api/v1/jobs/{id}", { params: { path, query: { wait: "5s" } } }));
assert.equal(ended.state, "completed");
const refused = await client.POST("/api/v1/jobs/{id}/cancel", { params: { path }, body: {} });
assert.equal(refused.error?.error.code, "state_conflict");
const paused = must(await client.POST("/api/v1/queues/{queue}/pause", { params: { path: { queue: "mail" } }, body: {} }));
assert.equal(paused.changed, true);
// A resume without a reason is one.
must(await client.POST("/api/v1/queues/{queue}/resume", { params: { path: { queue: "mail" } }, body: {} }));
assert.equal((await client.DELETE("/api/v1/workers/{id}", { params: { path: { id: worker_id } } })).response.status, 204);
console.log("the generated TypeScript client works");
