/** Makes docs/api.md from the schemas of the running process' answers. */

import { serviceCheckSchema } from '../src/ask/check.ts';
import { dropSchema } from '../src/ask/drops.ts';
import { type EndpointName, endpoints, everywhere } from '../src/ask/endpoints.ts';
import { stepSchema } from '../src/ask/explanation.ts';
import { reasonName } from '../src/ask/problems.ts';
import type { JsonSchema } from '../src/ask/schema.ts';
import { stateName } from '../src/ask/service.ts';
import { familyName, frontendName, modeName, protocolName } from '../src/ask/status.ts';
import { traceSchema } from '../src/ask/trace.ts';
import { outcomesSchema } from '../src/ask/traffic.ts';
import { code, notice, table } from './markdown.ts';

/** Types that several answers have. */
const shared: readonly (readonly [string, JsonSchema])[] = [
  ['Family', familyName.json],
  ['Protocol', protocolName.json],
  ['Mode', modeName.json],
  ['Frontend', frontendName.json],
  ['Reason', reasonName.json],
  ['State', stateName.json],
  ['Step', stepSchema.json],
  ['Outcomes', outcomesSchema.json],
];

interface Place {
  readonly indent: string;
  /** Names of types by their schemas. */
  readonly names: ReadonlyMap<string, string>;
}

/** A schema without its description. */
function keyOf({ description: _, ...schema }: JsonSchema & { description?: string }): string {
  return JSON.stringify(schema);
}

function typeOf(schema: JsonSchema, { indent, names }: Place): string {
  const name = names.get(keyOf(schema));
  if (name !== undefined) return name;
  if (schema.type === 'array') {
    const items = typeOf(schema.items, { indent, names });
    return /^'.*\|/.test(items) ? `(${items})[]` : `${items}[]`;
  }
  if (schema.type === 'object') {
    const fields = fieldsOf(schema, { indent: `${indent}  `, names });
    return ['{', ...fields, `${indent}}`].join('\n');
  }
  if (schema.type !== 'string') return schema.type;
  if (schema.enum !== undefined) return schema.enum.map((value) => `'${value}'`).join('|');
  return schema.format === undefined ? 'string' : 'time';
}

/** A line for each field; what it means stands above it where the line would be long. */
function fieldsOf(schema: JsonSchema, { indent, names }: Place): string[] {
  if (schema.type !== 'object') return [];
  return Object.entries(schema.properties).flatMap(([name, property]) => {
    if (indent === '  ' && (name === 'apiVersion' || name === 'kind')) return [];
    const mark = schema.required.includes(name) ? '' : '?';
    const [first = '', ...more] = typeOf(property, { indent, names }).split('\n');
    const line = `${indent}${name}${mark}: ${first}`;
    const { description = '' } = property;
    if (description === '') return [line, ...more];
    if (`${line} // ${description}`.length <= 100) return [`${line} // ${description}`, ...more];
    const lines = description.match(/.{1,84}(?: |$)/g)!.map((part) => part.trim());
    return [...lines.map((part) => `${indent}// ${part}`), line, ...more];
  });
}

/** An answer as a type: its fields, and those of the objects in it. */
function answerOf(schema: JsonSchema): string {
  if (schema.type !== 'object') throw new Error('An answer is an object');
  const { kind, ...rest } = schema.properties;
  const name = kind?.type === 'string' ? (kind.enum?.[0] ?? '') : '';
  const own = Object.entries(rest).map((one) => JSON.stringify(one));
  const names = new Map(shared.map(([type, json]) => [keyOf(json), type]));
  for (const property of Object.values(rest)) {
    const inner = property.type === 'array' ? property.items : property;
    if (inner.type !== 'object') continue;
    const fields = Object.entries(inner.properties).map((one) => JSON.stringify(one));
    if (fields.every((one) => own.includes(one))) names.set(keyOf(inner), name);
  }
  return block([`${name} ${typeOf(schema, { indent: '', names })}`]);
}

function block(types: readonly string[]): string {
  return ['```ts', ...types, '```'].join('\n');
}

function section(name: EndpointName): string {
  const { answer, meaning, path, query } = endpoints[name];
  const parameters = Object.entries<string>(query).filter(([key]) => !(key in everywhere));
  const rows = parameters.map(([key, words]) => [code(key), words]);
  const asked = rows.length === 0 ? '' : `${table(['Parameter', 'Meaning'], rows)}\n\n`;
  const also = Object.keys(query).filter((key) => key in everywhere);
  const others = also.length === 0 ? '' : ` Also takes ${also.map(code).join(' and ')}.`;
  return `## GET ${path}\n\n${meaning}${others}\n\n${asked}${answerOf(answer.json)}\n`;
}

export function apiPage(): string {
  const sections = (Object.keys(endpoints) as EndpointName[]).map(section);
  const common = Object.entries(everywhere).map(([key, words]) => `- \`${key}\`: ${words}`);
  const names = new Map<string, string>();
  const types = shared.map(([name, json]) => `${name} ${typeOf(json, { indent: '', names })}`);
  return `# What can be asked of the running process

${notice}

The metrics server (\`metricsBindAddress\`, by default 127.0.0.1:10249) answers these questions in
JSON. Commands such as \`fairlead status\` ask them; with \`-o json\` they print the answers unchanged.

- Questions change nothing and delay no sync.
- Only loopback addresses get answers, wherever the server listens; others get 403. So do requests
  whose Host header is a name other than localhost, as those of foreign web pages are.
- With \`readBindAddress\`, another port answers other machines over HTTPS, with a token: in the
  header \`Authorization: Bearer TOKEN\` of a GET, or as the body of a POST
  ([who may](kubectl-plugin.md#without-podsexec)). 401: no valid token; 403: no right to the path;
  503: no API server to judge it.
- An error has another status than 200, and its reason:
  \`{"error":"Service default/web has no port \\"81\\": it has http 80/TCP"}\`.
- Within \`/fairlead/v1\` fields are added, never removed or given another meaning. Ignore those
  that you do not know.

Each answer also has \`apiVersion\` (\`fairlead/v1\`) and \`kind\`, the name of its type below. \`?\` marks
fields that may be absent. \`time\` is RFC 3339 in UTC. The name of a port may be empty. Types
are written as in TypeScript. Several answers have these:

${block(types)}

\`continue\` in an answer: there is another page, which the parameter \`continue\` asks for. These
parameters are common:

${common.join('\n')}

${sections.join('\n')}
## fairlead trace -o json

The command itself follows packets through the rules of the node.
It prints this after the last one.

${answerOf(traceSchema.json)}

## fairlead drops -o json

A line for each connection that the command finds.

${answerOf(dropSchema.json)}

## fairlead service check -o json

The command itself connects to the endpoints of the Service.

${answerOf(serviceCheckSchema.json)}
`;
}
