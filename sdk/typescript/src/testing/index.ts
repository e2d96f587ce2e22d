/** Helpers for tests of jobs: handlers without a server, and real servers on stores of their own. */

export { type InlineOptions, type InlineRun, runInline } from "./inline.js";
export { TestServer, type TestServerOptions } from "./server.js";
export { DevServer } from "./dev.js";
