/**
 * Schemas of answers: the part of JSON Schema that answers need. The type of an answer, which the
 * server creates and the commands read, and its documentation are derived from the same value.
 */
import { apiVersion } from './paths.ts';

export type JsonSchema =
  | {
      readonly type: 'object';
      readonly properties: Readonly<Record<string, JsonSchema & Described>>;
      readonly required: readonly string[];
    }
  | { readonly type: 'array'; readonly items: JsonSchema }
  | {
      readonly type: 'string';
      readonly enum?: readonly string[];
      readonly format?: 'date-time';
    }
  | { readonly type: 'integer' | 'number' | 'boolean' };

interface Described {
  readonly description?: string;
}

export interface Schema<T> {
  readonly json: JsonSchema;
  /** Never set: it only carries the type. */
  readonly is?: T;
}

/** A field of an object, with what its name and type do not say. */
interface Field<T, Needed extends boolean = true> {
  readonly schema: Schema<T>;
  readonly meaning: string;
  readonly needed: Needed;
}

type Fields = Readonly<Record<string, Field<unknown, boolean>>>;

type ValueOf<F> = F extends Field<infer T, boolean> ? T : never;

type Needed<F extends Fields> = {
  [K in keyof F]: F[K] extends Field<unknown, true> ? K : never;
}[keyof F];

type ObjectOf<F extends Fields> = {
  readonly [K in Needed<F>]: ValueOf<F[K]>;
} & {
  readonly [K in Exclude<keyof F, Needed<F>>]?: ValueOf<F[K]> | undefined;
};

export type Infer<S> = S extends Schema<infer T> ? T : never;

export const text: Schema<string> = { json: { type: 'string' } };
/** RFC 3339, UTC. */
export const time: Schema<string> = { json: { type: 'string', format: 'date-time' } };
export const count: Schema<number> = { json: { type: 'integer' } };
export const number: Schema<number> = { json: { type: 'number' } };
export const flag: Schema<boolean> = { json: { type: 'boolean' } };

export function oneOf<const T extends string>(...values: readonly T[]): Schema<T> {
  return { json: { type: 'string', enum: values } };
}

export function list<T>(of: Schema<T>): Schema<readonly T[]> {
  return { json: { type: 'array', items: of.json } };
}

export function field<T>(schema: Schema<T>, meaning = ''): Field<T> {
  return { schema, meaning, needed: true };
}

/** A field that may be absent. */
export function maybe<T>(schema: Schema<T>, meaning = ''): Field<T, false> {
  return { schema, meaning, needed: false };
}

export function object<F extends Fields>(fields: F): Schema<ObjectOf<F>> {
  const entries = Object.entries(fields);
  const properties = entries.map(([name, { schema, meaning }]) => {
    return [name, { ...schema.json, description: meaning }] as const;
  });
  const required = entries.filter(([, { needed }]) => needed).map(([name]) => name);
  return { json: { type: 'object', properties: Object.fromEntries(properties), required } };
}

/** A complete answer: it names its version and kind. */
export function answer<const K extends string, F extends Fields>(kind: K, fields: F) {
  return object({
    apiVersion: field(oneOf(apiVersion)),
    kind: field(oneOf(kind)),
    ...fields,
  });
}
