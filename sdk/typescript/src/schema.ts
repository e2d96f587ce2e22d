/** Payload and result schemas: anything that follows Standard Schema (zod, valibot, arktype, …). */

/** The interface of https://standardschema.dev, version 1. */
export interface StandardSchemaV1<Input = unknown, Output = Input> {
  readonly "~standard": {
    readonly version: 1;
    readonly vendor: string;
    readonly validate: (value: unknown) => SchemaResult<Output> | Promise<SchemaResult<Output>>;
    readonly types?: { readonly input: Input; readonly output: Output } | undefined;
    /** Standard JSON Schema, if the library has it. */
    readonly jsonSchema?: { readonly input: (options: { readonly target: string }) => Record<string, unknown> } | undefined;
  };
}

/** What a schema says of a value. */
export type SchemaResult<Output> =
  | { readonly value: Output; readonly issues?: undefined }
  | { readonly issues: readonly SchemaIssue[] };

/** Why a value does not match a schema. */
export interface SchemaIssue {
  readonly message: string;
  readonly path?: readonly (PropertyKey | { readonly key: PropertyKey })[] | undefined;
}

/** The type that a schema reads. */
export type InferInput<S> = S extends StandardSchemaV1<infer Input, unknown> ? Input : never;

/** The type that a schema gives. */
export type InferOutput<S> = S extends StandardSchemaV1<unknown, infer Output> ? Output : never;

/** A value that does not match its schema. */
export class SchemaError extends Error {
  override readonly name = "SchemaError";

  constructor(
    what: string,
    /** The problems that the schema found. */
    readonly issues: readonly SchemaIssue[],
  ) {
    super(`${what} does not match its schema: ${issues.map(described).join("; ")}`);
  }
}

/** Checks a value; without a schema every value is right. */
export async function validate(schema: StandardSchemaV1 | undefined, value: unknown, what: string): Promise<unknown> {
  if (schema === undefined) return value;
  const result = await schema["~standard"].validate(value);
  if (result.issues !== undefined) throw new SchemaError(what, result.issues);
  return result.value;
}

/** The JSON Schema of what a schema reads; `undefined` if there is none, or its library cannot tell. */
export function jsonSchemaOf(schema: StandardSchemaV1 | undefined): Record<string, unknown> | undefined {
  return schema?.["~standard"].jsonSchema?.input({ target: "draft-2020-12" });
}

function described(issue: SchemaIssue): string {
  const path = (issue.path ?? []).map((part) => String(typeof part === "object" ? part.key : part));
  return path.length === 0 ? issue.message : `${path.join(".")}: ${issue.message}`;
}
