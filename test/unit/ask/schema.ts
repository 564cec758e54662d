import type { JsonSchema } from '../../../src/ask/schema.ts';

/** How an answer differs from its documentation: `.mode.name: is not a string`. */
export function problems(schema: JsonSchema, value: unknown, path = ''): string[] {
  switch (schema.type) {
    case 'array':
      if (!Array.isArray(value)) return [`${path}: is not a list`];
      return value.flatMap((item, i) => problems(schema.items, item, `${path}[${i}]`));
    case 'object':
      return objectProblems(schema, value, path);
    case 'integer':
      return Number.isInteger(value) ? [] : [`${path}: is not an integer`];
    case 'string':
      return textProblems(schema, value, path);
    default:
      return typeof value === schema.type ? [] : [`${path}: is not a ${schema.type}`];
  }
}

function objectProblems(
  { properties, required }: Extract<JsonSchema, { type: 'object' }>,
  value: unknown,
  path: string,
): string[] {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    return [`${path}: is not an object`];
  }
  const missing = required.filter((name) => !Object.hasOwn(value, name));
  return [
    ...missing.map((name) => `${path}.${name}: is missing`),
    ...Object.entries(value).flatMap(([name, item]) => {
      const property = properties[name];
      const at = `${path}.${name}`;
      return property === undefined ? [`${at}: is not documented`] : problems(property, item, at);
    }),
  ];
}

function textProblems(
  { enum: words, format }: Extract<JsonSchema, { type: 'string' }>,
  value: unknown,
  path: string,
): string[] {
  if (typeof value !== 'string') return [`${path}: is not a string`];
  if (words !== undefined && !words.includes(value)) return [`${path}: "${value}" is no choice`];
  const isTime = new Date(value).toJSON() === value;
  return format === 'date-time' && !isTime ? [`${path}: "${value}" is not a time`] : [];
}
