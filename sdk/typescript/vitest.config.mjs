/** The tests that vitest runs: of the package as it is published. Run by scripts/sdk-typescript, or here after a build. */

export default {
  test: { include: ["test/vitest/*.spec.ts"], testTimeout: 60_000, fileParallelism: true },
};
