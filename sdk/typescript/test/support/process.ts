/** A worker in a process of its own, to be killed. `CRASH_AT` names the point at which it kills itself. */

import { Windlass, defineJob, runUntilSignal } from "../../src/index.js";

export const order = defineJob<{ number: number }, string>("order");
export const pack = defineJob<number, number>("pack");
export const slow = defineJob<unknown, string>("slow");
export const block = defineJob<{ ms: number }, string>("block");

const say = (line: string) => process.stdout.write(`${line}\n`);

/** Ends this process as a crash does, if it is to crash here. */
function point(name: string): void {
  say(name);
  if (process.env["CRASH_AT"] === name) process.kill(process.pid, "SIGKILL");
}

const client = new Windlass();
const worker = client
  .worker({ concurrency: 5, name: process.env["WORKER_NAME"] ?? "test", version: "1" })
  .on(order, async ({ number }, cx) => {
    point("start");
    const seat = await cx.step("reserve", () => {
      point("in reserve");
      return number * 10;
    });
    point("after reserve");
    await cx.sleep("50ms");
    point("after sleep");
    const packed = await cx.all([pack.child(1), pack.child(2)]);
    point("after children");
    const paid = await cx.waitSignal<number>("paid");
    point("after signal");
    await cx.step("send", () => point("in send"));
    point("end");
    return `${seat} ${packed.join("+")} ${paid}`;
  })
  .on(pack, (number) => number * 100)
  .on(slow, async (_, cx) => {
    say("slow runs");
    await new Promise((resolve) => cx.abortSignal.addEventListener("abort", resolve));
    say(`slow stops: ${cx.cancelReason}`);
    throw new Error("stopped");
  })
  .on(block, ({ ms }) => {
    say("blocks");
    const end = Date.now() + ms;
    while (Date.now() < end);
    say("blocked no more");
    return "done";
  });
say("ready");
await runUntilSignal(worker);
say("stopped");
