import type { Change, Resource } from '../../state/change.ts';
import type { Pacer } from '../../time/pacer.ts';
import { isRawObject, objectOf, type RawObject } from '../decode/field-reader.ts';
import { type DecodeContext, decodeChange, keyOfRaw } from '../decode.ts';
import type { SourceProblem } from '../source.ts';
import type { RawManifest } from './flatten.ts';

/** The resource of each kind, for the supported API versions. */
const resourceOfType: ReadonlyMap<string, Resource> = new Map([
  ['v1/Service', 'services'],
  ['v1/Node', 'nodes'],
  ['discovery.k8s.io/v1/EndpointSlice', 'endpointslices'],
  ['networking.k8s.io/v1/ServiceCIDR', 'servicecidrs'],
  ['networking.k8s.io/v1beta1/ServiceCIDR', 'servicecidrs'],
]);

/** In a cluster, a controller makes EndpointSlices of them. */
const endpoints = 'Endpoints (v1)';

/** One usable object of a file. */
interface ManifestObject {
  readonly resource: Resource;
  readonly change: Change;
}

/** Objects of one file by `resource/key`. */
export type ManifestObjects = ReadonlyMap<string, ManifestObject>;

interface ManifestContent {
  /** Its name, for problems. */
  readonly file: string;
  readonly found: readonly RawManifest[];
  /** The objects that the file contained before. */
  readonly previous: ManifestObjects;
  /** `part`: some documents cannot be read. Objects that may be in them stay as they were. */
  readonly extent: 'all' | 'part';
}

/**
 * Decodes the content of a file. An object that cannot be used keeps its `previous` version, as an
 * API server keeps the old object if it refuses an update.
 */
export async function decodeManifests(
  { file, found, previous, extent }: ManifestContent,
  context: DecodeContext,
  pacer: Pacer,
): Promise<{ objects: ManifestObjects; problems: SourceProblem[] }> {
  const objects = new Map<string, ManifestObject>();
  const problems: SourceProblem[] = [];
  const ignored = new Set<string>();
  for (const { raw, line } of found) {
    if (pacer.due) await pacer.rest();
    const resource = resourceOfType.get(`${raw.apiVersion}/${raw.kind}`);
    if (resource === undefined) {
      ignored.add(`${raw.kind} (${raw.apiVersion})`);
      continue;
    }
    const defaulted = withDefaults(resource, raw);
    const decoded = decodeChange(resource, defaulted, context);
    for (const problem of decoded.problems) {
      problems.push({ ...problem, subject: `${problem.subject} (${file}:${line})` });
    }
    const key = `${resource}/${keyOfRaw(resource, defaulted)}`;
    const kept = decoded.problems.length > 0 ? previous.get(key)?.change : undefined;
    const change = decoded.change ?? kept;
    if (change === undefined || isOtherNode(change, context)) continue;
    if (objects.has(key)) {
      const reason = `${key} is in this file twice; the first one counts`;
      problems.push({ subject: `${file}:${line}`, field: undefined, reason });
    } else {
      objects.set(key, { resource, change });
    }
  }
  if (extent === 'part') {
    for (const [key, object] of previous) if (!objects.has(key)) objects.set(key, object);
  }
  if (ignored.size > 0) {
    const kinds = [...ignored].join(', ');
    const hint = ignored.has(endpoints) ? '; write an EndpointSlice in place of Endpoints' : '';
    const reason = `has objects of kinds that are not used: ${kinds}${hint}`;
    problems.push({ subject: file, field: undefined, reason });
  }
  return { objects, problems };
}

/** Adds defaults that an API server would fill in: the namespace, names of slice ports. */
function withDefaults(resource: Resource, raw: RawObject): RawObject {
  if (resource === 'nodes' || resource === 'servicecidrs') return raw;
  const metadata = objectOf(raw.metadata);
  const defaulted = {
    ...raw,
    metadata: { ...metadata, namespace: metadata.namespace || 'default' },
  };
  if (resource !== 'endpointslices' || !Array.isArray(raw.ports)) return defaulted;
  const ports = raw.ports.map((port: unknown) =>
    isRawObject(port) ? { ...port, name: port.name ?? '' } : port,
  );
  return { ...defaulted, ports };
}

/** Whether it is another Node than this one, which an API server would not send. */
function isOtherNode(change: Change, { nodeName }: DecodeContext): boolean {
  return change.kind === 'node' && change.node.name !== nodeName;
}
