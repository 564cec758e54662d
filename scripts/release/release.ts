/** Makes the files of a release from the archives of its images. */
import {
  copyFileSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { digestOf, gzip, tar } from '../image/layout.ts';
import { writeChart, writeChartArtifact } from './chart.ts';
import { ImageArchive, writeIndex, writeTree } from './images.ts';
import { provenanceOf, type Subject } from './provenance.ts';
import { imagePayload, Signer } from './sign.ts';
import { spdxOf } from './spdx.ts';
import { vexOf } from './vex.ts';

export interface ReleaseOptions {
  /** The repository. */
  readonly root: string;
  readonly version: string;
  /** OCI archives, one for each platform. */
  readonly images: readonly string[];
  /** The folder of the release. It is emptied first. */
  readonly folder: string;
  /** The time of all files, in seconds since 1970. */
  readonly epoch: number;
  readonly commit: string;
  /** Where the project is published. */
  readonly url?: string | undefined;
  /** The image's name in a registry, without a tag. */
  readonly repository?: string | undefined;
  /** Who runs the build: a URI. */
  readonly builder?: string | undefined;
  /** A private key in PEM. Without one, nothing is signed. */
  readonly key?: string | undefined;
}

/** Writes the release. All files but signatures depend on the options alone. */
export function makeRelease(options: ReleaseOptions): void {
  const signer = options.key === undefined ? undefined : new Signer(options.key);
  const notes = releaseNotes(
    readFileSync(join(options.root, 'CHANGELOG.md'), 'utf8'),
    options.version,
  );
  rmSync(options.folder, { recursive: true, force: true });
  mkdirSync(options.folder, { recursive: true });
  const work = mkdtempSync(join(tmpdir(), 'fairlead-release-'));
  try {
    new Release(options, work, signer).make(notes);
  } finally {
    rmSync(work, { recursive: true });
  }
}

class Release {
  readonly #options: ReleaseOptions;
  readonly #work: string;
  readonly #signer: Signer | undefined;
  readonly #name: string;
  readonly #repository: string;

  constructor(options: ReleaseOptions, work: string, signer: Signer | undefined) {
    this.#options = options;
    this.#work = work;
    this.#signer = signer;
    this.#name = `fairlead-${options.version}`;
    this.#repository = options.repository ?? 'localhost/fairlead';
  }

  make(notes: string): void {
    this.#write('release-notes.txt', notes);
    const { packages, index } = this.#putImages();
    const chart = this.#putChart(index);
    this.#putManifests(index);
    this.#putPlugins();
    this.#putProvenance(packages, [
      { name: this.#repository, digest: index },
      { name: `${this.#repository}-chart`, digest: chart },
    ]);
    this.#putSums();
  }

  #putImages(): { packages: string[]; index: string } {
    const { images, epoch, version } = this.#options;
    const opened = images
      .map((archive, i) => ({ archive, image: new ImageArchive(archive, this.#at(`image-${i}`)) }))
      .sort((a, b) => (a.image.architecture < b.image.architecture ? -1 : 1));
    const packages = new Set<string>();
    for (const { archive, image } of opened) {
      const name = `${this.#name}-linux-${image.architecture}`;
      copyFileSync(archive, this.#path(`${name}.oci.tar`));
      const bom = writeTree(image, this.#path(`${name}.tar.gz`), epoch);
      this.#write(`${name}.cdx.json`, bom);
      this.#write(`${name}.spdx.json`, spdxOf(bom, version));
      for (const { purl } of JSON.parse(bom).components as { purl: string }[]) packages.add(purl);
    }
    const index = writeIndex(
      opened.map(({ image }) => image),
      {
        reference: `${this.#repository}:${version}`,
        archive: this.#path(`${this.#name}.oci.tar`),
        epoch,
        work: this.#at('index'),
      },
    );
    this.#putImageSignature(`${this.#name}.image`, this.#repository, index);
    const known = [...packages].sort();
    const pushed = { repository: this.#repository, digest: index };
    const vex = vexOf({ version, epoch, image: pushed, packages: known });
    this.#write(`${this.#name}.openvex.json`, vex);
    return { packages: known, index };
  }

  #putChart(digest: string): string {
    const { root, url, repository, epoch, version } = this.#options;
    const packed = this.#path(`${this.#name}.tgz`);
    const image = repository === undefined ? undefined : { repository, digest };
    const chart = join(root, 'deploy/chart');
    writeChart(packed, { chart, url, image, epoch, work: this.#at('chart') });
    const about = readFileSync(join(this.#at('chart'), 'fairlead/Chart.yaml'), 'utf8');
    const name = `${this.#repository}-chart`;
    const artifact = writeChartArtifact(packed, about, {
      reference: `${name}:${version}`,
      archive: this.#path(`${this.#name}-chart.oci.tar`),
      epoch,
      work: this.#at('chart-artifact'),
    });
    this.#putImageSignature(`${this.#name}.chart`, name, artifact);
    return artifact;
  }

  /** Manifests, kustomize, rules, dashboard and the files of systemd. */
  #putManifests(digest: string): void {
    const { root, epoch, repository, version } = this.#options;
    const folder = this.#at('manifests');
    for (const name of ['manifests', 'kustomize', 'grafana', 'systemd']) {
      cpSync(join(root, 'deploy', name), join(folder, this.#name, name), { recursive: true });
    }
    cpSync(join(root, 'deploy/chart/rules.yaml'), join(folder, this.#name, 'rules.yaml'));
    if (repository !== undefined) {
      const from = `image: localhost/fairlead:${version}`;
      const files = readdirSync(folder, { recursive: true }) as string[];
      for (const path of files.filter((one) => one.endsWith('.yaml'))) {
        const text = readFileSync(join(folder, path), 'utf8');
        const pinned = text.replaceAll(from, `image: ${repository}@${digest}`);
        writeFileSync(join(folder, path), pinned);
      }
    }
    const archive = this.#path(`${this.#name}-manifests.tar`);
    tar(folder, archive, epoch, [this.#name]);
    gzip(archive);
  }

  /** Plugins of kubectl: one file each. */
  #putPlugins(): void {
    const deploy = join(this.#options.root, 'deploy');
    for (const name of readdirSync(deploy).filter((one) => one.startsWith('kubectl-'))) {
      copyFileSync(join(deploy, name), this.#path(name));
    }
    this.#putKrewPlugin();
  }

  /** The plugin as krew installs it: an archive, and a manifest with its checksum. */
  #putKrewPlugin(): void {
    const { epoch, root, url, version } = this.#options;
    const names = ['LICENSE', 'kubectl-fairlead'];
    const folder = this.#at('krew');
    mkdirSync(folder);
    copyFileSync(join(root, 'LICENSE'), join(folder, 'LICENSE'));
    copyFileSync(join(root, 'deploy/kubectl-fairlead'), join(folder, 'kubectl-fairlead'));
    const archive = `kubectl-fairlead-${version}.tar`;
    tar(folder, this.#path(archive), epoch, names);
    gzip(this.#path(archive));
    const packed = `${archive}.gz`;
    const sha256 = digestOf(readFileSync(this.#path(packed))).replace('sha256:', '');
    const manifest = readFileSync(join(root, 'deploy/krew.yaml.in'), 'utf8')
      .replace('@VERSION@', `v${version}`)
      .replace('@SHA256@', sha256)
      .replace('@URI@', `${url ?? '@URL@'}/releases/download/v${version}/${packed}`);
    this.#write(`${this.#name}.krew.yaml`, manifest.replace(/^#.*\n/gm, ''));
  }

  #putImageSignature(name: string, repository: string, digest: string): void {
    const payload = imagePayload(repository, digest);
    this.#write(`${name}.json`, payload);
    if (this.#signer === undefined) return;
    this.#write(`${name}.json.sig`, this.#signer.sign(Buffer.from(payload)));
  }

  #putProvenance(packages: readonly string[], others: readonly Subject[]): void {
    const { root, version, commit, url, repository, builder, epoch } = this.#options;
    const files = this.#files().map((name) => ({
      name,
      digest: digestOf(readFileSync(this.#path(name))),
    }));
    const statement = provenanceOf({
      version,
      commit,
      url,
      builder: builder ?? 'urn:fairlead:builder:unknown',
      parameters: {
        sourceDateEpoch: epoch,
        ...(repository === undefined ? {} : { repository }),
      },
      packages,
      lockDigest: digestOf(readFileSync(join(root, 'package-lock.json'))),
      subjects: [...files, ...others],
    });
    this.#write(`${this.#name}.provenance.json`, statement);
    if (this.#signer === undefined) return;
    this.#write(`${this.#name}.provenance.dsse.json`, this.#signer.envelope(statement));
  }

  #putSums(): void {
    const sums = this.#files().map((name) => {
      const digest = digestOf(readFileSync(this.#path(name))).replace('sha256:', '');
      return `${digest}  ${name}\n`;
    });
    this.#write('SHA256SUMS', sums.join(''));
    if (this.#signer === undefined) return;
    this.#write('SHA256SUMS.sig', this.#signer.sign(readFileSync(this.#path('SHA256SUMS'))));
    this.#write('cosign.pub', this.#signer.publicKey);
  }

  /** All files but those that only a key can make. */
  #files(): string[] {
    const isSigned = /\.(sig|dsse\.json)$/;
    return readdirSync(this.#options.folder)
      .filter((name) => !isSigned.test(name))
      .sort();
  }

  #at(name: string): string {
    return join(this.#work, name);
  }

  #path(name: string): string {
    return join(this.#options.folder, name);
  }

  #write(name: string, text: string): void {
    if (existsSync(this.#path(name))) throw new Error(`${name} is made twice`);
    writeFileSync(this.#path(name), text);
  }
}

/** The section of a version, without its heading. */
export function releaseNotes(changelog: string, version: string): string {
  const [, ...sections] = changelog.split(/^## /m);
  const section = sections.find((text) => /^\S+/.exec(text)?.[0]?.replace(',', '') === version);
  if (section === undefined) throw new Error(`CHANGELOG.md has no section ${version}`);
  return `# Fairlead ${version}\n\n${section.slice(section.indexOf('\n')).trim()}\n`;
}
