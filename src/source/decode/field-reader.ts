import { objectKey } from '../../state/types.ts';
import type { SourceProblem } from '../source.ts';

export type RawObject = Readonly<Record<string, unknown>>;

/**
 * The result of decoding one raw object. No record: it is not relevant, or cannot be used at all.
 */
export interface Decoded<T> {
  readonly record: T | undefined;
  readonly problems: readonly SourceProblem[];
}

interface ObjectName {
  /** `namespace/name`, or the name of a cluster-scoped object. */
  readonly key: string;
  /** Empty for cluster-scoped objects. */
  readonly namespace: string;
  readonly name: string;
}

export function isRawObject(value: unknown): value is RawObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** The object, to look for fields that may be absent. */
export function objectOf(value: unknown): RawObject {
  return isRawObject(value) ? value : {};
}

/** Whether it is a text, and not empty. */
export function isText(value: unknown): value is string {
  return typeof value === 'string' && value !== '';
}

/** Undefined if the text is not JSON. */
export function tryJSON(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** The most problems of one object that are reported one by one. */
const problemsMax = 20;

/** Any value as JSON, shortened, for the reason of a problem. */
export function show(value: unknown): string {
  const text = typeof value === 'string' ? `"${value}"` : toJSON(value);
  return text.length > 60 ? `${text.slice(0, 57)}…` : text;
}

function toJSON(value: unknown): string {
  try {
    return String(JSON.stringify(value));
  } catch {
    // A value of YAML may contain itself, and any value may be deeper than the stack.
    return 'something too deep to show';
  }
}

const nothing: readonly never[] = Object.freeze([]);

/**
 * Reads fields of raw JSON: checks their types, and records problems with their field. Absent and
 * null mean the same, as in the Kubernetes API, and are not a problem: the decoder knows which
 * fields are required.
 *
 * `within` sets the list element that is read, so that a field path is made only for a problem:
 * 240,000 endpoints are read here.
 */
export class FieldReader {
  readonly #problems: SourceProblem[] = [];
  readonly #kind: string;
  #faults = 0;
  #key = '';
  #list = '';
  #index = -1;

  constructor(kind: string) {
    this.#kind = kind;
  }

  get subject(): string {
    return this.#key === '' ? this.#kind : `${this.#kind} ${this.#key}`;
  }

  /** The problems. If there are many: the first ones, and a count of the others. */
  get problems(): readonly SourceProblem[] {
    const more = this.#faults - this.#problems.length;
    if (more === 0) return this.#problems;
    const reason = `and ${more} more problems`;
    return [...this.#problems, { subject: this.subject, field: undefined, reason }];
  }

  /** Number of problems so far. */
  get faults(): number {
    return this.#faults;
  }

  /** Sets the object that later problems are about. */
  about(key: string): void {
    this.#key = key;
  }

  /** Fields are relative to `list[index]` until `outside`. */
  within(list: string, index: number): void {
    this.#list = list;
    this.#index = index;
  }

  outside(): void {
    this.#index = -1;
  }

  /**
   * Records a problem: a value is refused, or replaced by another. Inside a list element, an empty
   * `field` means the element itself.
   */
  refuse(field: string, reason: string): undefined {
    this.#faults += 1;
    if (this.#faults > problemsMax) return undefined;
    const element = this.#index < 0 ? '' : `${this.#list}[${this.#index}]`;
    const dot = element !== '' && field !== '' ? '.' : '';
    this.#problems.push({ subject: this.subject, field: `${element}${dot}${field}`, reason });
    return undefined;
  }

  object(value: unknown, field: string): RawObject | undefined {
    if (value === undefined || value === null || isRawObject(value)) return value ?? undefined;
    return this.refuse(field, `must be an object, is ${show(value)}`);
  }

  /** Entries after the first `most` are not read. */
  list(value: unknown, field: string, most = Number.POSITIVE_INFINITY): readonly unknown[] {
    if (Array.isArray(value)) {
      if (value.length <= most) return value;
      this.refuse(field, `has more than ${most} entries: only the first ${most} are read`);
      return value.slice(0, most);
    }
    if (value !== undefined && value !== null) {
      this.refuse(field, `must be a list, is ${show(value)}`);
    }
    return nothing;
  }

  text(value: unknown, field: string): string | undefined {
    if (typeof value === 'string') return value;
    if (value === undefined || value === null) return undefined;
    return this.refuse(field, `must be a string, is ${show(value)}`);
  }

  /** An object that must not be absent: an element of a list. */
  objectItem(value: unknown, field = ''): RawObject | undefined {
    if (isRawObject(value)) return value;
    return this.refuse(field, `must be an object, is ${show(value)}`);
  }

  /** A string that must be neither absent nor empty: an element of a list. */
  textItem(value: unknown, field: string): string | undefined {
    if (value === '') return this.refuse(field, 'is empty');
    if (typeof value === 'string') return value;
    return this.refuse(field, `must be a string, is ${show(value)}`);
  }

  /** RFC 3339, or a Date, as milliseconds since the epoch; undefined if absent or invalid. */
  time(value: unknown, field: string): number | undefined {
    if (value instanceof Date) {
      const dateMs = value.getTime();
      return Number.isFinite(dateMs) ? dateMs : this.refuse(field, 'is not a time');
    }
    const text = this.text(value, field) ?? '';
    if (text === '') return undefined;
    const timeMs = /^\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d/.test(text) ? Date.parse(text) : Number.NaN;
    return Number.isFinite(timeMs) ? timeMs : this.refuse(field, `is not a time: ${show(text)}`);
  }

  /** Undefined if absent; `'invalid'` (and a problem) if it is not a boolean. */
  flag(value: unknown, field: string): boolean | undefined | 'invalid' {
    if (typeof value === 'boolean') return value;
    if (value === undefined || value === null) return undefined;
    this.refuse(field, `must be true or false, is ${show(value)}`);
    return 'invalid';
  }

  /** Undefined if absent; `'invalid'` (and a problem) if it is not an integer in range. */
  whole(
    value: unknown,
    field: string,
    range: { min: number; max: number },
  ): number | undefined | 'invalid' {
    if (value === undefined || value === null) return undefined;
    if (typeof value === 'number' && Number.isInteger(value)) {
      if (value >= range.min && value <= range.max) return value;
    }
    this.refuse(field, `must be a whole number ${range.min}–${range.max}, is ${show(value)}`);
    return 'invalid';
  }

  /** One of `choices`; `fallback` if absent; undefined (and a problem) if it is another value. */
  choice<T extends string>(
    value: unknown,
    field: string,
    choices: readonly T[],
    fallback: T,
  ): T | undefined {
    if (value === undefined || value === null || value === '') return fallback;
    const found = choices.find((choice) => choice === value);
    if (found !== undefined) return found;
    return this.refuse(field, `must be ${choices.join(' or ')}, is ${show(value)}`);
  }
}

/** `metadata` of a raw object, opened for reading, or the problem that forbids it. */
type Opened =
  | {
      readonly fields: FieldReader;
      readonly raw: RawObject;
      readonly metadata: RawObject;
      readonly labels: RawObject;
      readonly id: ObjectName;
    }
  | { readonly fields: FieldReader; readonly id: undefined };

/** The API's limit of the names of objects. */
const nameMax = 253;

/** Reads the name. An object without a name is not used. */
export function open(kind: string, raw: unknown, scope: 'namespaced' | 'cluster'): Opened {
  const fields = new FieldReader(kind);
  if (!isRawObject(raw)) {
    fields.refuse('', `must be an object, is ${show(raw)}`);
    return { fields, id: undefined };
  }
  const metadata = fields.object(raw.metadata, 'metadata') ?? {};
  const name = fields.text(metadata.name, 'metadata.name') ?? '';
  const namespace =
    scope === 'cluster' ? '' : (fields.text(metadata.namespace, 'metadata.namespace') ?? '');
  if (name === '') fields.refuse('metadata.name', 'is missing');
  if (name.length > nameMax || namespace.length > nameMax) {
    fields.refuse('metadata', `has a name of more than ${nameMax} characters`);
  }
  if (name.includes('/')) fields.refuse('metadata.name', `must not contain a slash: ${show(name)}`);
  if (scope === 'namespaced' && namespace === '') {
    fields.refuse('metadata.namespace', 'is missing');
  }
  if (namespace.includes('/')) {
    fields.refuse('metadata.namespace', `must not contain a slash: ${show(namespace)}`);
  }
  if (fields.faults > 0) return { fields, id: undefined };
  const key = scope === 'cluster' ? name : objectKey(namespace, name);
  fields.about(key);
  const labels = fields.object(metadata.labels, 'metadata.labels') ?? {};
  return { fields, raw, metadata, labels, id: { key, namespace, name } };
}
