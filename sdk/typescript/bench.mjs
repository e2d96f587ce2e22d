/** Measures one worker process against a server: bench.mjs URL [JOBS] [CONCURRENCY]. Needs a build, see scripts/sdk-typescript. */

const { Windlass, defineJob } = await import(new URL("./dist/esm/index.js", import.meta.url).href);

const [url, jobs = "20000", concurrency = "100"] = process.argv.slice(2);
if (url === undefined) throw new Error("usage: bench.mjs URL [JOBS] [CONCURRENCY]");
const client = new Windlass({ url });
const payload = { text: "x".repeat(88) };

/** Submits jobs, then lets a worker run them; returns jobs per second. */
async function drain(name, count, handler) {
  const job = defineJob(`bench.${name}`);
  for (let at = 0; at < count; at += 1000) {
    await client.submitAll(Array.from({ length: Math.min(1000, count - at) }, () => job.child(payload)));
  }
  let left = count;
  let end = () => {};
  const all = new Promise((resolve) => {
    end = resolve;
  });
  const worker = client.worker({ concurrency: Number(concurrency) }).on(job, async (input, cx) => {
    const result = await handler(input, cx);
    left -= 1;
    if (left === 0) end();
    return result;
  });
  const began = performance.now();
  await worker.start();
  await all;
  // With the last outcomes.
  await worker.stop();
  return (count / (performance.now() - began)) * 1000;
}

/** Milliseconds from a submission to its handler, on an idle worker. */
async function pickUp(count) {
  const job = defineJob("bench.pickup");
  let arrive = () => {};
  const worker = client.worker().on(job, () => void arrive(performance.now()));
  await worker.start();
  const times = [];
  for (let index = 0; index < count; index += 1) {
    const arrived = new Promise((resolve) => {
      arrive = resolve;
    });
    const began = performance.now();
    const handle = await client.submit(job, payload);
    times.push((await arrived) - began);
    // Until its outcome is stored the worker is not idle.
    await handle.result();
  }
  await worker.stop();
  return times.sort((a, b) => a - b);
}

const count = Number(jobs);
console.log(`drained, ${concurrency} at once: ${Math.round(await drain("noop", count, () => null))}/s`);
const steps = await drain("steps", Math.ceil(count / 20), async (_, cx) => {
  for (let step = 0; step < 5; step += 1) await cx.step("step", () => step);
});
console.log(`steps of jobs that have five, ${concurrency} at once: ${Math.round(steps * 5)}/s`);
const times = await pickUp(500);
console.log(`pick-up: p50 ${times[250].toFixed(1)} ms, p99 ${times[495].toFixed(1)} ms`);
