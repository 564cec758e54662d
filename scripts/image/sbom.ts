/** Makes the list of an image's components, in CycloneDX. */
import { createHash } from 'node:crypto';
import type { DebianPackage } from './debian.ts';
import { type Platform, platforms } from './platforms.ts';
import { run } from './run.ts';

interface Component {
  readonly 'bom-ref': string;
  readonly type: string;
  readonly name: string;
  readonly version: string;
  readonly purl: string;
}

/** The output of `npm sbom`, as far as it is used here. */
interface Bom {
  serialNumber: string;
  metadata: { timestamp: string; component: object };
  components: Component[];
}

export interface SbomOptions {
  /** The folder with package-lock.json. */
  readonly root: string;
  readonly platform: Platform;
  readonly version: string;
  readonly debian: readonly DebianPackage[];
  readonly epoch: number;
}

/** Lists the npm packages in the bundle, Node, and the libraries of Debian. */
export function makeSbom(options: SbomOptions): string {
  const { root, platform, version, debian, epoch } = options;
  const args = ['sbom', '--sbom-format=cyclonedx', '--omit=dev', '--package-lock-only'];
  const bom = JSON.parse(run('npm', args, { cwd: root })) as Bom;
  const node = `node-linux-${platforms[platform].npm}`;
  const { components } = bom;
  bom.components = [
    ...components.filter(({ name }) => !name.startsWith('node-linux-') || name === node),
    ...debian.map((found) => debianComponent(found, platform)),
  ];
  bom.metadata.timestamp = new Date(epoch * 1000).toISOString();
  // npm uses the name of the folder.
  bom.metadata.component = {
    ...bom.metadata.component,
    type: 'container',
    name: 'fairlead',
    version,
  };
  bom.serialNumber = `urn:uuid:${uuidOf(JSON.stringify(bom.components))}`;
  return `${JSON.stringify(bom, null, 2)}\n`;
}

function debianComponent({ name, version }: DebianPackage, platform: Platform): Component {
  const purl = `pkg:deb/debian/${name}@${encodeURIComponent(version)}?arch=${platform}`;
  return { 'bom-ref': purl, type: 'library', name, version, purl };
}

/** A UUID that is a hash of the content, so that the same content has the same one. */
function uuidOf(content: string): string {
  const hex = createHash('sha256').update(content).digest('hex');
  return hex.slice(0, 32).replace(/^(.{8})(.{4}).(.{3}).(.{3})(.{12})$/, '$1-$2-8$3-8$4-$5');
}
