/** The API's types, as @kubernetes/client-node generates them from its OpenAPI description. */
import * as models from '@kubernetes/client-node';

interface Attribute {
  readonly baseName: string;
  readonly type: string;
}

type Model = { getAttributeTypeMap(): readonly Attribute[] };

const scalars: Readonly<Record<string, string>> = {
  string: 'string',
  number: 'number',
  boolean: 'boolean',
};

/** What is wrong with an object of this type: `spec.replica: V1DaemonSetSpec has no such field`. */
export function problemsOf(value: unknown, type: string, path = ''): string[] {
  const list = /^Array<(.+)>$/.exec(type)?.[1];
  if (list !== undefined) {
    if (!Array.isArray(value)) return [`${path}: is not a list`];
    return value.flatMap((item, i) => problemsOf(item, list, `${path}[${i}]`));
  }
  const scalar = scalars[type];
  if (scalar !== undefined) return typeof value === scalar ? [] : [`${path}: is no ${scalar}`];
  const model = (models as unknown as Record<string, Model | undefined>)[type];
  if (model?.getAttributeTypeMap === undefined) return mapProblems(value, type, path);
  if (typeof value !== 'object' || value === null) return [`${path}: is no ${type}`];
  const attributes = new Map(model.getAttributeTypeMap().map((at) => [at.baseName, at.type]));
  return Object.entries(value).flatMap(([key, item]) => {
    const at = path === '' ? key : `${path}.${key}`;
    const known = attributes.get(key);
    return known === undefined ? [`${at}: ${type} has no such field`] : problemsOf(item, known, at);
  });
}

/** `{ [key: string]: string; }`, and types that are anything (IntOrString). */
function mapProblems(value: unknown, type: string, path: string): string[] {
  const content = /^\{ \[key: string\]: (\w+); \}$/.exec(type)?.[1];
  if (content === undefined) return [];
  if (typeof value !== 'object' || value === null) return [`${path}: is not a map`];
  return Object.entries(value).flatMap(([key, item]) =>
    problemsOf(item, content, `${path}.${key}`),
  );
}
