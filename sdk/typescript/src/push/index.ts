/** Web programs that are called by a server: pushed jobs and callbacks. Nothing here needs Node. */

export { defineJob } from "../define.js";
export { Failure, Permanent, RetryAfter, Snooze } from "../errors.js";
export { type Callback, type HeaderLines, InvalidSignature, type VerifyOptions, verify, verifyCallback } from "../webhooks.js";
export { type NodeRequest, type NodeResponse, expressPush, honoPush, nextPush } from "./adapters.js";
export { Push, type PushAnswer, type PushContext, type PushOptions } from "./push.js";
