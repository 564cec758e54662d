/** The package of the Helm chart, and the same as an OCI artifact. */
import { cpSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { parse, parseDocument } from 'yaml';
import { gzip, Layout, media, named, tar } from '../image/layout.ts';

/** Media types of https://helm.sh/docs/topics/registries/. */
const helm = {
  config: 'application/vnd.cncf.helm.config.v1+json',
  content: 'application/vnd.cncf.helm.chart.content.v1.tar+gzip',
} as const;

export interface ChartOptions {
  /** deploy/chart. */
  readonly chart: string;
  /** Where the project is published, for `home` and `sources`. */
  readonly url: string | undefined;
  /** The image that the chart installs: repository and digest. */
  readonly image: { readonly repository: string; readonly digest: string } | undefined;
  readonly epoch: number;
  readonly work: string;
}

/** Writes the package NAME-VERSION.tgz, as `helm package` names it. */
export function writeChart(archive: string, options: ChartOptions): void {
  const { chart, epoch, work } = options;
  const folder = join(work, 'fairlead');
  mkdirSync(work, { recursive: true });
  const ignored = readFileSync(join(chart, '.helmignore'), 'utf8').split('\n').filter(Boolean);
  const isKept = (path: string) => !ignored.some((name) => `${relative(chart, path)}/` === name);
  cpSync(chart, folder, { recursive: true, filter: isKept });
  describe(join(folder, 'Chart.yaml'), options);
  pin(join(folder, 'values.yaml'), options);
  const uncompressed = join(work, 'chart.tar');
  tar(work, uncompressed, epoch, ['fairlead']);
  cpSync(gzip(uncompressed), archive);
}

function describe(path: string, { url, image }: ChartOptions): void {
  const document = parseDocument(readFileSync(path, 'utf8'));
  if (url !== undefined) {
    document.set('home', url);
    document.set('sources', [url]);
  }
  if (image !== undefined) {
    const images = `- name: fairlead\n  image: ${image.repository}@${image.digest}\n`;
    document.setIn(['annotations', 'artifacthub.io/images'], images);
  }
  writeFileSync(path, document.toString());
}

/** Makes the image of the release the default. */
function pin(path: string, { image }: ChartOptions): void {
  if (image === undefined) return;
  const text = readFileSync(path, 'utf8')
    .replace(/^( {2}repository: ).*$/m, `$1${image.repository}`)
    .replace(/^( {2}digest: ).*$/m, `$1${image.digest}`);
  writeFileSync(path, text);
}

export interface ArtifactOptions {
  readonly archive: string;
  readonly epoch: number;
  readonly work: string;
  /** The repository with its tag. */
  readonly reference: string;
}

/** Writes a package as an OCI archive, as `helm push` stores it. Returns the manifest's digest. */
export function writeChartArtifact(
  packed: string,
  about: string,
  options: ArtifactOptions,
): string {
  const { archive, epoch, work, reference } = options;
  const metadata = parse(about) as Record<string, string>;
  const layout = new Layout(work);
  const config = layout.addJson(helm.config, metadata);
  const layers = [layout.add(helm.content, readFileSync(packed))];
  const annotations = {
    'org.opencontainers.image.created': new Date(epoch * 1000).toISOString(),
    'org.opencontainers.image.description': metadata.description!,
    'org.opencontainers.image.title': metadata.name!,
    'org.opencontainers.image.version': metadata.version!,
  };
  const manifest = { schemaVersion: 2, mediaType: media.manifest, config, layers, annotations };
  const entry = layout.addJson(media.manifest, manifest);
  layout.pack({ ...entry, annotations: named(reference) }, { archive, epoch });
  return entry.digest;
}
