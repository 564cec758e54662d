/** Makes the chart's README.md, and the descriptions in values.schema.json, from values.yaml. */
import { readFileSync } from 'node:fs';
import { isMap, isScalar, parseDocument, type YAMLMap } from 'yaml';
import { code, table } from './markdown.ts';

/** What values.yaml says of one value. */
export interface DocumentedValue {
  /** As in `--set`: `image.tag`. */
  readonly path: string;
  readonly meaning: string;
  /** The default as JSON. Undefined for a section, whose values follow. */
  readonly shown: string | undefined;
}

/** Maps whose keys are the user's own: they are documented as one value. */
const freeForm = new Set([
  'nodeSelector',
  'updateStrategy',
  'resources',
  'startupProbe',
  'readinessProbe',
  'livenessProbe',
]);

/**
 * Reads the comments above each value. The comment above the first key of a section belongs to
 * that key. A paragraph that an empty line separates from the value is not about it.
 */
export function documentedValues(text: string): DocumentedValue[] {
  const found: DocumentedValue[] = [];
  const visit = (map: YAMLMap, prefix: string, above: string): void => {
    for (const [i, { key, value }] of map.items.entries()) {
      if (!isScalar(key)) continue;
      const path = `${prefix}${key.value}`;
      const comment = key.commentBefore ?? (i === 0 ? above : '');
      const meaning = comment.split('\n \n').at(-1)!.split(/\n\n/).at(-1)!.replaceAll('\n', '');
      const isSection = isMap(value) && value.items.length > 0 && !freeForm.has(path);
      const shown = isSection ? undefined : JSON.stringify(value);
      found.push({ path, meaning: meaning.trim(), shown });
      if (isSection) visit(value, `${path}.`, value.commentBefore ?? '');
    }
  };
  const { contents, commentBefore } = parseDocument(text);
  if (!isMap(contents)) throw new Error('values.yaml is not a map');
  visit(contents as YAMLMap, '', contents.commentBefore ?? commentBefore ?? '');
  return found;
}

interface Schema {
  description?: string;
  properties?: Record<string, Schema>;
}

/** values.schema.json with the description of each value. */
export function describedSchema(schemaText: string, valuesText: string): string {
  const schema = JSON.parse(schemaText) as Schema;
  for (const { path, meaning } of documentedValues(valuesText)) {
    const place = path
      .split('.')
      .reduce<Schema | undefined>((at, name) => at?.properties?.[name], schema);
    if (place === undefined) throw new Error(`values.schema.json has no ${path}`);
    const { description: _, ...rest } = place;
    for (const key of Object.keys(place)) delete place[key as keyof Schema];
    if (meaning !== '') place.description = meaning;
    Object.assign(place, rest);
  }
  return `${JSON.stringify(schema, undefined, 2)}\n`;
}

/** README.md of the chart, with a row for each value. */
export function chartReadme(valuesText: string): string {
  const rows = documentedValues(valuesText)
    .filter(({ shown }) => shown !== undefined)
    .map(({ path, shown, meaning }) => [code(path), code(shown!), meaning]);
  return `# The Helm chart of Fairlead

<!-- Written by scripts/docs.ts from values.yaml; do not edit. -->

The chart installs Fairlead as a DaemonSet, in place of kube-proxy. Read
[migrating.md](../../docs/migrating.md) and the
[page of your distribution](../../docs/install/README.md) first.

${'```'}
helm install fairlead fairlead-VERSION.tgz --namespace kube-system \\
  --set image.repository=REGISTRY/fairlead,image.digest=sha256:DIGEST
helm test fairlead --namespace kube-system
${'```'}

| Values | For |
| --- | --- |
| the defaults | kubeadm: reads the ConfigMap of kube-proxy |
| \`values-plain.yaml\` | clusters without kube-proxy; needs \`apiServer.host\`, \`config.clusterCIDR\` |
| \`values-eks.yaml\`, \`values-openshift.yaml\` | EKS, OpenShift |
| \`values-hardened.yaml\` | in addition: no privileges while it runs |
| \`values-beside-canary.yaml\`, \`values-canary.yaml\` | in addition: two [releases](../../docs/releases.md), by a label |

- Rules stay in the kernel when pods end: an uninstall interrupts nothing
  ([nothing left](../../docs/migrating.md#nothing-left)).
- With kube-prometheus-stack, set \`enabled\` of \`monitoring.podMonitor\` and
  \`monitoring.prometheusRule\`, and \`additionalLabels.release\` of both to its release's name.

## Values

${table(['Value', 'Default', 'Meaning'], rows)}
`;
}

/** The generated files by their paths. \`read\` returns the text of a file of the repository. */
export function chartPages(root: URL): Record<string, () => string> {
  const read = (name: string) => readFileSync(new URL(`deploy/chart/${name}`, root), 'utf8');
  const values = read('values.yaml');
  return {
    'deploy/chart/README.md': () => chartReadme(values),
    'deploy/chart/values.schema.json': () => describedSchema(read('values.schema.json'), values),
  };
}
