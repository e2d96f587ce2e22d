/** Where a worker reports problems; `console` is one, and so are pino and winston. */
export interface Logger {
  info(message: string): void;
  warn(message: string): void;
  error(message: string): void;
}

/** Warnings and errors on standard error. */
export const standardError: Logger = {
  info: () => {},
  warn: (message) => console.warn(`windlass: ${message}`),
  error: (message) => console.error(`windlass: ${message}`),
};
