/** What is in an image, in CycloneDX. */
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

/** As `npm sbom` makes it: the parts that are looked at here. */
interface Bom {
  serialNumber: string;
  metadata: { timestamp: string; component: object };
  components: Component[];
}

export interface SbomOptions {
  /** Where package-lock.json is. */
  readonly root: string;
  readonly platform: Platform;
  readonly version: string;
  readonly debian: readonly DebianPackage[];
  readonly epoch: number;
}

/** The npm packages that the program is bundled from, Node, and libraries of Debian's. */
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
  // npm takes the name of the folder.
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

/** Not random, so that the same content has the same number. */
function uuidOf(content: string): string {
  const hex = createHash('sha256').update(content).digest('hex');
  return hex.slice(0, 32).replace(/^(.{8})(.{4}).(.{3}).(.{3})(.{12})$/, '$1-$2-8$3-8$4-$5');
}
