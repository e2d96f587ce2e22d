/**
 * A document pipeline: split a document into pages, read each page as a job of its own, merge the results. Pages fail, are
 * retried and crash on their own; the document is merged without those that cannot be read. While the pages run, the
 * document holds no slot.
 *
 *     windlass dev -- node examples/documents.js
 */

import { pathToFileURL } from "node:url";

import { type Cx, Failure, Permanent, Windlass, defineJob } from "@windlass/sdk";

export interface Merged {
  readonly words: number;
  readonly missing: readonly { readonly page: number; readonly why: string }[];
}

export const documents = defineJob<{ name: string; pages: number }, Merged>("document");

export const pages = defineJob<{ document: string; number: number }, { words: number }>("document.page", {
  queue: "pages",
  retry: { preset: "fixed", maxAttempts: 3 },
});

/** Reads the words of a page. */
export type Reader = (document: string, page: number, signal: AbortSignal) => Promise<number>;

/** Split, fan out, merge. */
export async function document({ name, pages: count }: { name: string; pages: number }, cx: Cx): Promise<Merged> {
  const numbers = await cx.step("split", () => Array.from({ length: count }, (_, index) => index + 1));
  const read = await cx.allSettled(
    numbers.map((number) => pages.child({ document: name, number })),
    { name: "pages" },
  );
  let words = 0;
  const missing: { page: number; why: string }[] = [];
  for (const [index, page] of read.entries()) {
    if (page.status === "fulfilled") words += page.value.words;
    else missing.push({ page: numbers[index]!, why: page.reason.message });
  }
  await cx.progress(100, `${numbers.length - missing.length} of ${numbers.length} pages`);
  return { words, missing };
}

/** The handler of pages. */
export function page(read: Reader): (page: { document: string; number: number }, cx: Cx) => Promise<{ words: number }> {
  return async ({ document, number }, cx) => {
    await cx.log(`page ${number} of ${document}`);
    return { words: await read(document, number, cx.abortSignal) };
  };
}

/** Page 3 is corrupt, and page 4 needs three attempts. */
export function scanner(): Reader {
  let tries = 0;
  return async (_, page) => {
    if (page === 3) throw new Permanent("the page is corrupt", { code: "corrupt" });
    if (page === 4 && ++tries < 3) throw new Failure("the scanner is busy");
    return 100 + page;
  };
}

/** Reads a document of eight pages. */
export async function main(): Promise<void> {
  const client = new Windlass();
  await using worker = client.worker({ concurrency: 8 });
  worker.on(documents, document).on(pages, page(scanner()));
  await worker.start();
  const handle = await client.submit(documents, { name: "report.pdf", pages: 8 });
  console.log(await handle.result({ timeout: "1m" }));
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? "").href) await main();
