/** Makes docs/api.md from the schemas of the running process' answers. */

import { serviceCheckSchema } from '../src/ask/check.ts';
import { type EndpointName, endpoints } from '../src/ask/endpoints.ts';
import type { JsonSchema } from '../src/ask/schema.ts';
import { traceSchema } from '../src/ask/trace.ts';
import { code, notice, table } from './markdown.ts';

/** The type in words, such as `integer` or `list of string`; for an enum its values. */
function typeOf(schema: JsonSchema): string {
  if (schema.type === 'array') return `list of ${typeOf(schema.items)}`;
  if (schema.type !== 'string') return schema.type;
  if (schema.enum !== undefined) return schema.enum.map(code).join(', ');
  return schema.format === undefined ? 'string' : 'time';
}

/** The fields of the objects that a field has: itself, or the elements of its list. */
function fieldsIn(schema: JsonSchema): [string, JsonSchema & { description?: string }][] {
  if (schema.type === 'array') return fieldsIn(schema.items);
  return schema.type === 'object' ? Object.entries(schema.properties) : [];
}

/** A row for each field, with its path. Fields that the answer itself has, too, have no second. */
function rowsOf(schema: JsonSchema, path: string, answer: ReadonlySet<string>): string[][] {
  if (schema.type === 'array') return rowsOf(schema.items, `${path}[]`, answer);
  if (schema.type !== 'object') return [];
  return fieldsIn(schema).flatMap(([name, property]) => {
    if (path === '' && (name === 'apiVersion' || name === 'kind')) return [];
    const at = path === '' ? name : `${path}.${name}`;
    const optional = schema.required.includes(name) ? '' : 'optional ';
    const inner = fieldsIn(property);
    const isRepeated = inner.length > 1 && inner.every((one) => answer.has(JSON.stringify(one)));
    const names = inner.map(([field]) => code(field)).join(', ');
    const meaning = `${property.description ?? ''}${isRepeated ? ` As above: ${names}.` : ''}`;
    return [
      [code(at), `${optional}${typeOf(property)}`, meaning],
      ...(isRepeated ? [] : rowsOf(property, at, answer)),
    ];
  });
}

function section(name: EndpointName): string {
  const { answer, meaning, path, query } = endpoints[name];
  const parameters = Object.entries<string>(query).map(([key, words]) => [code(key), words]);
  const asked = parameters.length === 0 ? '' : `\n${table(['Parameter', 'Meaning'], parameters)}\n`;
  return `## GET ${path}\n\n${meaning}\n${asked}\n${fieldsOf(answer.json)}\n`;
}

function fieldsOf(schema: JsonSchema): string {
  const fields = fieldsIn(schema);
  const kind = fields.find(([name]) => name === 'kind')?.[1];
  const rows = rowsOf(schema, '', new Set(fields.map((one) => JSON.stringify(one))));
  const shown = kind === undefined ? '' : `Its \`kind\` is ${typeOf(kind)}.\n\n`;
  return `${shown}${table(['Field', 'Type', 'Meaning'], rows)}`;
}

export function apiPage(): string {
  const sections = (Object.keys(endpoints) as EndpointName[]).map(section);
  return `# What can be asked of the running process

${notice}

The metrics server (\`metricsBindAddress\`, by default 127.0.0.1:10249) answers the questions below in
JSON. The commands \`fairlead status\` and its like ask them, and print the answers for people; with
\`-o json\` they print them as they are.

- Questions change nothing. They are answered from what the process knows anyway and hold up no
  sync.
- Only loopback addresses are answered, wherever the server listens: others get 403. So does a
  request whose Host header is a name other than localhost: a page in a browser comes like that.
- With \`readBindAddress\`, another port answers the same questions over HTTPS for other machines, to
  who has a token: in the header \`Authorization: Bearer TOKEN\` of a GET, or as the body of a POST
  ([who may](kubectl-plugin.md#without-podsexec)). 401: no valid token; 403: no right to the path;
  503: no API server says so.
- What cannot be answered has another status than 200, and the reason:
  \`{"error":"Service default/web has no port \\"81\\": it has http 80/TCP"}\`.
- Within \`/fairlead/v1\` fields are added, and neither removed nor given another meaning. Leave alone
  what you do not know.
- Each answer has \`apiVersion\`, \`fairlead/v1\`, and its \`kind\`. Times are RFC 3339, in UTC. Optional
  fields are left out where there is nothing to say.

${sections.join('\n')}
## fairlead trace -o json

No question to the process: the command itself follows packets through the rules of the node, and
prints this after the last one.

${fieldsOf(traceSchema.json)}

## fairlead service check -o json

No question to the process either, apart from the Service's endpoints: the command itself connects
to them.

${fieldsOf(serviceCheckSchema.json)}
`;
}
