/** The document example, in virtual time. */

import { test } from "@windlass/sdk/vitest";
import { expect } from "vitest";

import { document, documents, page, pages, scanner } from "../../examples/documents.js";

test("a document is merged without the pages that cannot be read", async ({ windlass }) => {
  const read: number[] = [];
  const reader = scanner();
  await windlass.work((worker) =>
    worker.on(documents, document).on(
      pages,
      page(async (document, number, signal) => {
        const words = await reader(document, number, signal);
        read.push(number);
        return words;
      }),
    ),
  );
  const handle = await windlass.run(documents, { name: "report.pdf", pages: 8 });
  // Page 4 is between two attempts; the document waits without a slot.
  await expect(handle).toHaveState("waiting");
  await windlass.advance("1h");
  await expect(handle).toHaveCompleted({
    words: 101 + 102 + 104 + 105 + 106 + 107 + 108,
    missing: [{ page: 3, why: expect.stringContaining("the page is corrupt") }],
  });
  expect(read.sort()).toEqual([1, 2, 4, 5, 6, 7, 8]);
  expect((await handle.get()).progress?.message).toBe("7 of 8 pages");
});

test("pages that were read before a crash are not read again", async ({ windlass }) => {
  const read: number[] = [];
  await windlass.work((worker) => worker.on(documents, document).on(pages, page(async (_, number) => read.push(number))));
  await windlass.crash({ afterStep: "split" });
  const handle = await windlass.submit(documents, { name: "report.pdf", pages: 3 });
  await windlass.advance("1h");
  await expect(handle).toHaveCompleted(expect.objectContaining({ missing: [] }));
  expect(read.sort()).toEqual([1, 2, 3]);
});
