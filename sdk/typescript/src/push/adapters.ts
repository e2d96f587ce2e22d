/** Pushes in web frameworks. The body must reach them as it was sent: no middleware may have parsed it. */

import { type Push, answer as answerOf } from "./push.js";

/** The part of a request of Node's `http`, Express or Fastify that is used. */
export interface NodeRequest extends AsyncIterable<Uint8Array> {
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  /** A body that `express.raw({ type: "*\/*" })` has read. */
  readonly body?: unknown;
  /** Whether something has read the body to its end. */
  readonly readableEnded?: boolean;
  on(event: "close", listener: () => void): unknown;
}

/** The part of a response of Node's `http` or Express that is used. */
export interface NodeResponse {
  readonly writableEnded: boolean;
  statusCode: number;
  setHeader(name: string, value: string): unknown;
  end(body: string): unknown;
  on(event: "close", listener: () => void): unknown;
}

const PARSED = "the body was parsed before its signature could be checked: add this route before `express.json()` and the like";

/** A handler for Express, and for Node's own `http` server: `app.post("/work", expressPush(push))`. */
export function expressPush(push: Push): (request: NodeRequest, response: NodeResponse) => Promise<void> {
  return async (request, response) => {
    const gone = new AbortController();
    response.on("close", () => response.writableEnded || gone.abort());
    const body = await bodyOf(request);
    const answer = body === undefined ? answerOf(500, { error: PARSED }) : await push.handle(body, request.headers, gone.signal);
    if (gone.signal.aborted) return;
    response.statusCode = answer.status;
    for (const [name, value] of Object.entries(answer.headers)) response.setHeader(name, value);
    response.end(answer.body);
  };
}

/** A handler for Hono: `app.post("/work", honoPush(push))`. */
export function honoPush(push: Push): (context: { readonly req: { readonly raw: Request } }) => Promise<Response> {
  return (context) => push.fetch(context.req.raw);
}

/** A route handler for Next.js: `export const POST = nextPush(push)`. */
export function nextPush(push: Push): (request: Request) => Promise<Response> {
  return push.fetch;
}

/** The body as it was sent; `undefined` if it was parsed before, so that its bytes are gone. */
async function bodyOf(request: NodeRequest): Promise<Uint8Array | undefined> {
  if (request.body instanceof Uint8Array) return request.body;
  if (typeof request.body === "string") return new TextEncoder().encode(request.body);
  if (request.readableEnded === true) return undefined;
  const chunks: Uint8Array[] = [];
  for await (const chunk of request) chunks.push(chunk);
  const body = new Uint8Array(chunks.reduce((length, chunk) => length + chunk.length, 0));
  let at = 0;
  for (const chunk of chunks) {
    body.set(chunk, at);
    at += chunk.length;
  }
  return body;
}
