/**
 * Tests with vitest in virtual time: a fixture with a server whose clock the test moves, and matchers for jobs.
 *
 * Each file of tests has a server of its own, which is reset before every test.
 */

import { expect, test as plain } from "vitest";

import { type JobMatchers, matchers } from "./matchers.js";
import { DevServer } from "./dev.js";
import { VirtualTime } from "./virtual.js";

export type { ExpectedFailure, JobMatchers } from "./matchers.js";
export { VirtualTime } from "./virtual.js";

/** What tests get. */
export interface WindlassFixtures {
  /** A server without jobs, whose clock stands still until `advance`. */
  readonly windlass: VirtualTime;
  /** The server of this file, which all of its tests use one after the other. */
  readonly windlassServer: DevServer;
}

/** Whether a test has the file's server. */
const taken = new WeakSet<DevServer>();

/** `test` of vitest with the fixture `windlass`; extend it further with `test.extend`. */
export const test = plain.extend<WindlassFixtures>({
  windlassServer: [
    // biome-ignore lint: vitest reads the names of fixtures from this pattern
    async ({}, use) => {
      await using server = await DevServer.start();
      await use(server);
    },
    { scope: "file" },
  ],
  windlass: async ({ windlassServer }, use) => {
    if (taken.has(windlassServer)) {
      throw new Error("another test of this file runs: give tests that are concurrent servers of their own, with DevServer.start()");
    }
    taken.add(windlassServer);
    try {
      await windlassServer.reset();
      await using time = new VirtualTime(windlassServer);
      await use(time);
    } finally {
      taken.delete(windlassServer);
    }
  },
});

expect.extend(matchers);

declare module "vitest" {
  // biome-ignore lint: the parameter must be named as vitest names it
  interface Matchers<T = any> extends JobMatchers<T> {}
}
