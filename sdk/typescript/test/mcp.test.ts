/**
 * The server's tools for agents, used by the official client of the Model Context Protocol: over HTTP and over `windlass mcp`.
 * The client checks every message against the protocol's schemas, and results against the schemas that tools announce.
 */

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { type TestContext, describe, test } from "node:test";

import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import type { Transport } from "@modelcontextprotocol/sdk/shared/transport.js";

import { Permanent, Windlass, defineJob } from "../src/index.js";
import { quiet, server } from "./support/support.js";

const BINARY = process.env["WINDLASS_BINARY"] ?? "windlass";
const job = defineJob<{ secret: string }, string>("order");

type Role = "admin" | "viewer";

/** A server with keys, one job that waits and one that has failed. */
async function start(t: TestContext) {
  const keys: Record<Role, string> = { admin: "", viewer: "" };
  const { server: running } = await server(t, [], (store) => {
    for (const role of ["admin", "viewer"] as const) {
      const args = ["keys", "create", "--name", role, "--role", role, "--store", store];
      keys[role] = /wl_\w+/.exec(execFileSync(BINARY, args, { encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] }))![0];
    }
  });
  const client = new Windlass({ url: running.url, key: keys.admin });
  await using worker = client.worker({ logger: quiet });
  worker.on(job, () => {
    throw new Permanent("no such card", { code: "no_card" });
  });
  await worker.start();
  const failed = await client.submit(job, { secret: "4111" });
  await assert.rejects(failed.result({ timeout: "60s" }));
  await worker.stop();
  const waiting = await client.submit(job, { secret: "4222" }, { queue: "slow" });
  return { url: running.url, keys, client, failed, waiting };
}

type Started = Awaited<ReturnType<typeof start>>;

/** Both ways to the same tools. */
const WAYS: Record<string, (started: Started, role: Role) => Transport> = {
  "over HTTP": ({ url, keys }, role) => {
    const headers = { authorization: `Bearer ${keys[role]}` };
    return new StreamableHTTPClientTransport(new URL(`${url}/mcp`), { requestInit: { headers } }) as Transport;
  },
  "over standard input and output": ({ url, keys }, role) =>
    new StdioClientTransport({ command: BINARY, args: ["mcp"], env: { WINDLASS_URL: url, WINDLASS_KEY: keys[role] }, stderr: "inherit" }),
};

async function connect(t: TestContext, transport: Transport): Promise<Client> {
  const agent = new Client({ name: "test", version: "1" });
  await agent.connect(transport);
  t.after(() => agent.close());
  return agent;
}

/** Calls a tool, and reads the JSON of its answer. */
async function call(agent: Client, name: string, args: Record<string, unknown> = {}): Promise<{ text: string; isError: boolean }> {
  const answer = await agent.callTool({ name, arguments: args });
  const content = answer.content as { type: string; text?: string }[];
  assert.ok(content.length > 0 && content.every(({ type }) => type === "text"), JSON.stringify(answer));
  return { text: content.map(({ text }) => text).join("\n"), isError: answer.isError === true };
}

async function tools(agent: Client): Promise<string[]> {
  const listed: string[] = [];
  for (let cursor: string | undefined; ; ) {
    const page = await agent.listTools(cursor === undefined ? {} : { cursor });
    listed.push(...page.tools.map(({ name }) => name));
    for (const { inputSchema, description } of page.tools) assert.ok(inputSchema.type === "object" && description);
    cursor = page.nextCursor;
    if (cursor === undefined) return listed;
  }
}

const READS = ["overview", "list_jobs", "show_job", "explain_job", "queue_health", "list_dead_letters", "list_schedules", "audit", "search_docs"];
const ACTS = ["submit_job", "signal_job", "redrive_jobs", "cancel_jobs", "suspend_jobs", "resume_jobs", "pause_queue", "resume_queue", "trigger_schedule"];

describe("agents", { concurrency: 2 }, () => {
  for (const [way, transport] of Object.entries(WAYS)) {
    test(`${way}: tools are listed, read, and act only when they are asked to`, async (t) => {
      const started = await start(t);
      const { client, failed, waiting } = started;
      const agent = await connect(t, transport(started, "admin"));
      assert.equal(agent.getServerVersion()?.name, "windlass");
      assert.match(agent.getInstructions() ?? "", /data/);
      await agent.ping();
      assert.deepEqual((await tools(agent)).sort(), [...READS, ...ACTS].sort());

      assert.match((await call(agent, "overview")).text, /"failed":\s*1/);
      assert.match((await call(agent, "list_jobs", { state: "scheduled" })).text, new RegExp(waiting.id));
      assert.match((await call(agent, "explain_job", { id: waiting.id })).text, /no_worker/);
      assert.match((await call(agent, "list_dead_letters")).text, /no_card/);
      assert.match((await call(agent, "search_docs", { query: "redrive" })).text, /redrive/i);
      const shown = await call(agent, "show_job", { id: failed.id });
      assert.match(shown.text, /no such card/);
      assert.doesNotMatch(shown.text, /4111/, "payloads are hidden");
      const withPayload = await call(agent, "show_job", { id: failed.id, include_payload: true });
      assert.match(withPayload.text, /untrusted[^]*4111|4111[^]*untrusted/);

      const dry = await call(agent, "cancel_jobs", { id: waiting.id });
      assert.ok(!dry.isError && /dry_run/.test(dry.text), dry.text);
      assert.equal((await waiting.get()).state, "scheduled", "a dry run changes nothing");
      const done = await call(agent, "cancel_jobs", { id: waiting.id, dry_run: false, reason: "asked for" });
      assert.ok(!done.isError, done.text);
      assert.equal((await waiting.get()).state, "cancelled");
      const audit = await client.http.ask<{ events: unknown[] }>({ method: "GET", path: `/audit?job=${waiting.id}` });
      assert.match(JSON.stringify(audit), /asked for/);

      const refused = await call(agent, "show_job", { id: "00000000-0000-7000-8000-000000000000" });
      assert.ok(refused.isError && /not_found/.test(refused.text), refused.text);
    });

    test(`${way}: a viewer is offered what it may do; resources and prompts are read`, async (t) => {
      const started = await start(t);
      const agent = await connect(t, transport(started, "viewer"));
      assert.deepEqual((await tools(agent)).sort(), [...READS].sort());
      const refused = await call(agent, "cancel_jobs", { id: started.waiting.id, dry_run: false });
      assert.ok(refused.isError && /forbidden/.test(refused.text), refused.text);
      assert.equal((await started.waiting.get()).state, "scheduled");

      const { resources } = await agent.listResources();
      assert.ok(resources.some(({ uri }) => uri === "windlass://openapi.json"));
      const { resourceTemplates } = await agent.listResourceTemplates();
      assert.deepEqual(resourceTemplates.map(({ uriTemplate }) => uriTemplate), ["windlass://jobs/{id}"]);
      const { contents } = await agent.readResource({ uri: `windlass://jobs/${started.failed.id}` });
      assert.match(JSON.stringify(contents), /no such card/);
      const { prompts } = await agent.listPrompts();
      assert.deepEqual(prompts.map(({ name }) => name).sort(), ["triage_dead_letters", "why_is_a_job_stuck", "why_is_a_queue_slow"]);
      const { messages } = await agent.getPrompt({ name: "why_is_a_job_stuck", arguments: { id: started.waiting.id } });
      assert.match(JSON.stringify(messages), new RegExp(started.waiting.id));
    });
  }
});
