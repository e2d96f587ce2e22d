/** Server-sent events, read from a response. */

/** One event of a stream. */
export interface SseEvent {
  readonly id: string | undefined;
  readonly event: string;
  readonly data: string;
}

/** Reads events until the stream ends. */
export async function* readEvents(body: ReadableStream<Uint8Array>): AsyncGenerator<SseEvent> {
  const decoder = new TextDecoder();
  let rest = "";
  for await (const chunk of chunks(body)) {
    rest += decoder.decode(chunk, { stream: true });
    const blocks = rest.split(/\r?\n\r?\n/);
    rest = blocks.pop() ?? "";
    for (const block of blocks) {
      const event = parse(block);
      if (event !== undefined) yield event;
    }
  }
}

/** The chunks of a stream. Not every runtime can iterate one, and leaving must end the request. */
async function* chunks(body: ReadableStream<Uint8Array>): AsyncGenerator<Uint8Array> {
  const reader = body.getReader();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      yield value;
    }
  } finally {
    await reader.cancel().catch(() => {});
  }
}

function parse(block: string): SseEvent | undefined {
  let id: string | undefined;
  let event = "message";
  const data: string[] = [];
  for (const line of block.split(/\r?\n/)) {
    const [name = "", ...parts] = line.split(":");
    const value = parts.join(":").replace(/^ /, "");
    if (name === "id") id = value;
    else if (name === "event") event = value;
    else if (name === "data") data.push(value);
  }
  return data.length === 0 ? undefined : { id, event, data: data.join("\n") };
}
