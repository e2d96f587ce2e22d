/** The server's clock as this process sees it. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { Windlass } from "../src/index.js";
import { deferred } from "./support/support.js";

const EARLY = "2030-01-31T12:00:00.000Z";
const LATE = "2030-01-31T12:01:00.000Z";

test("a response that was overtaken does not set the clock back, and a restored server is believed", async () => {
  const overtaken = deferred();
  const times = [EARLY, LATE, EARLY];
  const respond: typeof fetch = async () => {
    const time = times.shift() ?? assert.fail("no more requests are expected");
    if (times.length === 2) await overtaken.promise;
    return new Response("{}", { headers: { "windlass-time": time } });
  };
  const client = new Windlass({ url: "http://127.0.0.1:1", fetch: respond, clock: "stopped" });
  const ask = () => client.http.ask({ method: "GET", path: "/gate" });
  const slow = ask();
  await ask();
  overtaken.resolve();
  await slow;
  assert.equal(client.http.now(), Date.parse(LATE));
  await ask();
  assert.equal(client.http.now(), Date.parse(EARLY));
});
