/** A release of two tiny images, made twice and verified as its users would. */
import { execFileSync, spawnSync } from 'node:child_process';
import { createHash, generateKeyPairSync, verify } from 'node:crypto';
import {
  appendFileSync,
  cpSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { writeArchive } from '../../../scripts/image/archive.ts';
import { image } from '../../../scripts/image/settings.ts';
import { makeRelease, releaseNotes } from '../../../scripts/release/release.ts';
import { Signer } from '../../../scripts/release/sign.ts';
import { unaffected } from '../../../scripts/release/vex.ts';

const root = resolve(import.meta.dirname, '../../..');
const { version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
const folder = mkdtempSync(join(tmpdir(), 'fairlead-release-test-'));
const epoch = 1_700_000_000;
const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
const key = privateKey.export({ type: 'pkcs8', format: 'pem' }).toString();

const bom = {
  serialNumber: 'urn:uuid:3e671687-395b-41f5-a30f-a58921a69b79',
  metadata: { timestamp: '2023-11-14T22:13:20.000Z', component: { name: 'fairlead' } },
  components: [
    {
      name: 'pino',
      version: '1.0.0',
      purl: 'pkg:npm/pino@1.0.0',
      licenses: [{ license: { id: 'MIT' } }],
    },
    { name: 'libc6', version: '2.36-9', purl: 'pkg:deb/debian/libc6@2.36-9?arch=amd64' },
  ],
};

/** An image with a program and a list of components. */
function tinyImage(platform: 'amd64' | 'arm64'): string {
  const layer = join(folder, `layer-${platform}`);
  const documents = join(layer, 'usr/share/doc/fairlead');
  mkdirSync(documents, { recursive: true });
  mkdirSync(join(layer, 'usr/local/bin'), { recursive: true });
  writeFileSync(join(documents, 'sbom.cdx.json'), JSON.stringify(bom));
  writeFileSync(join(layer, 'usr/local/bin/kube-proxy'), platform, { mode: 0o755 });
  symlinkSync('kube-proxy', join(layer, 'usr/local/bin/fairlead'));
  const archive = join(folder, `${platform}.tar`);
  const work = join(folder, 'work');
  writeArchive({ ...image(version), layers: [layer], platform, epoch, archive, work });
  return archive;
}

const repository = 'registry.example/net/fairlead';
const url = 'https://example.com/fairlead';
const made = (name: string): string => join(folder, 'first', name);
const read = (name: string): Buffer => readFileSync(made(name));
const sha256 = (content: Uint8Array) => createHash('sha256').update(content).digest('hex');

function release(name: string, images: readonly string[], signingKey?: string): void {
  const commit = '0123456789abcdef0123456789abcdef01234567';
  const builder = 'https://example.com/builder';
  const out = join(folder, name);
  makeRelease({
    root,
    version,
    images,
    folder: out,
    epoch,
    commit,
    url,
    repository,
    builder,
    key: signingKey,
  });
}

beforeAll(() => {
  const images = [tinyImage('amd64'), tinyImage('arm64')];
  release('first', images, key);
  release('second', [...images].reverse(), key);
  release('unsigned', images);
  // Compresses two images twice, on a machine that may be busy.
});
afterAll(() => rmSync(folder, { recursive: true }));

/** The blobs of an OCI archive, each of which has the digest of its name. */
function openArchive(name: string) {
  const layout = mkdtempSync(join(folder, 'layout-'));
  execFileSync('tar', ['-C', layout, '-xf', made(name)]);
  const blob = (digest: string) => {
    const content = readFileSync(join(layout, 'blobs', digest.replace(':', '/')));
    expect(`sha256:${sha256(content)}`).toBe(digest);
    return content;
  };
  const { manifests } = JSON.parse(readFileSync(join(layout, 'index.json'), 'utf8'));
  return {
    entry: manifests[0],
    json: (digest: string) => JSON.parse(blob(digest).toString()),
    blob,
  };
}

it('a release has the same bytes when it is made again, except signatures', () => {
  const signed = /\.(sig|dsse\.json)$/;
  const names = readdirSync(join(folder, 'first')).filter((name) => !signed.test(name));
  expect(names).toEqual(readdirSync(join(folder, 'second')).filter((name) => !signed.test(name)));
  expect(names.length).toBeGreaterThan(14);
  const differing = names.filter(
    (name) => sha256(read(name)) !== sha256(readFileSync(join(folder, 'second', name))),
  );
  expect(differing).toEqual([]);
});

it('a release without a key has the same files, without signatures', () => {
  const signed = /\.(sig|dsse\.json)$|^cosign\.pub$/;
  const names = readdirSync(join(folder, 'first')).filter((name) => !signed.test(name));
  expect(readdirSync(join(folder, 'unsigned'))).toEqual(names);
});

describe('images of a release', () => {
  it('are in one index, with the manifests of all platforms', () => {
    const { entry, json, blob } = openArchive(`fairlead-${version}.oci.tar`);
    expect(entry.annotations['io.containerd.image.name']).toBe(`${repository}:${version}`);
    const { mediaType, manifests } = json(entry.digest);
    expect(mediaType).toBe('application/vnd.oci.image.index.v1+json');
    const platforms = manifests.map((one: { platform: object }) => one.platform);
    expect(platforms).toEqual([
      { architecture: 'amd64', os: 'linux' },
      { architecture: 'arm64', os: 'linux' },
    ]);
    for (const { digest, size, platform } of manifests) {
      const manifest = json(digest);
      expect(JSON.stringify(manifest)).toHaveLength(size);
      expect(json(manifest.config.digest).architecture).toBe(platform.architecture);
      for (const layer of manifest.layers) expect(blob(layer.digest)).toHaveLength(layer.size);
    }
  });

  it('are also available as file systems', () => {
    const tree = execFileSync('tar', ['-tzf', made(`fairlead-${version}-linux-arm64.tar.gz`)]);
    expect(tree.toString()).toContain('./usr/local/bin/kube-proxy\n');
  });

  it('have their components in CycloneDX and SPDX', () => {
    const name = `fairlead-${version}-linux-amd64`;
    expect(JSON.parse(read(`${name}.cdx.json`).toString())).toEqual(bom);
    const spdx = JSON.parse(read(`${name}.spdx.json`).toString());
    expect(spdx).toMatchObject({
      spdxVersion: 'SPDX-2.3',
      documentNamespace: bom.serialNumber,
      creationInfo: { created: '2023-11-14T22:13:20Z' },
    });
    expect(spdx.packages).toMatchObject([
      { name: 'fairlead', versionInfo: version },
      {
        name: 'pino',
        licenseDeclared: 'MIT',
        externalRefs: [{ referenceLocator: 'pkg:npm/pino@1.0.0' }],
      },
      { name: 'libc6', licenseDeclared: 'NOASSERTION' },
    ]);
  });
});

describe('the chart of a release', () => {
  const indexDigest = () => openArchive(`fairlead-${version}.oci.tar`).entry.digest;
  const file = (path: string) =>
    execFileSync('tar', ['-xzOf', made(`fairlead-${version}.tgz`), `fairlead/${path}`]).toString();

  it('is packed as Helm packs it, without the values of tests', () => {
    const names = execFileSync('tar', ['-tzf', made(`fairlead-${version}.tgz`)]).toString();
    expect(names).toContain('fairlead/Chart.yaml\n');
    expect(names).toContain('fairlead/templates/daemonset.yaml\n');
    expect(names).not.toContain('fairlead/ci/');
  });

  it('installs the image of the release by its digest, and names its source', () => {
    const { image: pinned } = parse(file('values.yaml'));
    expect(pinned).toMatchObject({ repository, digest: indexDigest() });
    const about = parse(file('Chart.yaml'));
    expect(about).toMatchObject({ version, home: url, sources: [url] });
    expect(about.annotations['artifacthub.io/images']).toContain(`${repository}@${indexDigest()}`);
  });

  it('is an OCI artifact like that of `helm push`', () => {
    const { entry, json, blob } = openArchive(`fairlead-${version}-chart.oci.tar`);
    const { config, layers } = json(entry.digest);
    expect(config.mediaType).toBe('application/vnd.cncf.helm.config.v1+json');
    expect(json(config.digest)).toMatchObject({ name: 'fairlead', version });
    expect(layers).toMatchObject([
      { mediaType: 'application/vnd.cncf.helm.chart.content.v1.tar+gzip' },
    ]);
    expect(blob(layers[0].digest)).toEqual(read(`fairlead-${version}.tgz`));
  });

  it('installs the same image as the manifests', () => {
    const path = `fairlead-${version}/manifests/kubeadm.yaml`;
    const archive = made(`fairlead-${version}-manifests.tar.gz`);
    const text = execFileSync('tar', ['-xzOf', archive, path]).toString();
    expect(text).toContain(`image: ${repository}@${indexDigest()}\n`);
    expect(text).not.toContain('localhost');
  });
});

describe('checksums and signatures of a release', () => {
  it('include the sum of every file, which `sha256sum --check` accepts', () => {
    const args = ['--check', '--strict', '--quiet', 'SHA256SUMS'];
    execFileSync('sha256sum', args, { cwd: join(folder, 'first') });
    const listed = read('SHA256SUMS')
      .toString()
      .match(/ {2}\S+$/gm)!;
    const others = /^SHA256SUMS|\.(sig|dsse\.json)$|^cosign\.pub$/;
    const names = readdirSync(join(folder, 'first')).filter((name) => !others.test(name));
    expect(listed.map((name) => name.trim())).toEqual(names);
  });

  it('are verified by Node, and do not match other content', () => {
    const signed = readdirSync(join(folder, 'first')).filter((name) => name.endsWith('.sig'));
    expect(signed.sort()).toEqual([
      'SHA256SUMS.sig',
      `fairlead-${version}.chart.json.sig`,
      `fairlead-${version}.image.json.sig`,
    ]);
    for (const name of signed) {
      const content = read(name.replace(/\.sig$/, ''));
      const signature = Buffer.from(read(name).toString(), 'base64');
      expect(verify('sha256', content, publicKey, signature), name).toBe(true);
      expect(verify('sha256', Buffer.concat([content, content]), publicKey, signature)).toBe(false);
    }
  });

  it('sign the digest of the image index, like cosign', () => {
    const { entry } = openArchive(`fairlead-${version}.oci.tar`);
    expect(JSON.parse(read(`fairlead-${version}.image.json`).toString())).toEqual({
      critical: {
        identity: { 'docker-reference': repository },
        image: { 'docker-manifest-digest': entry.digest },
        type: 'cosign container image signature',
      },
      optional: null,
    });
  });

  it('cannot be made with keys of other kinds or encrypted by cosign', () => {
    const rsa = generateKeyPairSync('rsa', { modulusLength: 2048 }).privateKey;
    const pem = rsa.export({ type: 'pkcs8', format: 'pem' }).toString();
    expect(() => new Signer(pem)).toThrow('not an ECDSA key of curve P-256');
    const encrypted = '-----BEGIN ENCRYPTED SIGSTORE PRIVATE KEY-----';
    expect(() => new Signer(encrypted)).toThrow("encrypted in cosign's own form");
  });
});

/** CI installs it. Unit tests need no program. */
const hasOpenssl = spawnSync('openssl', ['version']).error === undefined;

it.skipIf(!hasOpenssl)(
  'a release is verified by the commands of docs/releases.md, and not after a change',
  () => {
    const page = readFileSync(join(root, 'docs/releases.md'), 'utf8');
    const script = /## Verifying a release[^#]*?```sh\n([^`]+)```/.exec(page)![1]!;
    const copy = join(folder, 'verified');
    cpSync(join(folder, 'first'), copy, { recursive: true });
    const commands = script.replaceAll('/tmp/', `${folder}/`);
    const env = { ...process.env, KEY: made('cosign.pub') };
    const check = () => spawnSync('sh', ['-ec', commands], { cwd: copy, env, encoding: 'utf8' });
    expect(check()).toMatchObject({ status: 0 });
    appendFileSync(join(copy, 'release-notes.txt'), 'changed');
    expect(check()).toMatchObject({ status: 1 });
    cpSync(join(folder, 'first'), copy, { recursive: true });
    appendFileSync(join(copy, 'SHA256SUMS'), '\n');
    expect(check().status).not.toBe(0);
    expect(check().stdout).toContain('Verification failure');
  },
);

it('a release is published by the commands that the workflow runs, if it is for that registry', () => {
  const publish = (registry: string) =>
    spawnSync('sh', ['scripts/release/publish', '--dry-run', join(folder, 'unsigned')], {
      cwd: root,
      env: { ...process.env, TAG: `v${version}`, REGISTRY: registry },
      encoding: 'utf8',
    });
  expect(publish('registry.example').status).toBe(1);
  const name = `fairlead-${version}`;
  const image = `${repository}@${openArchive(`${name}.oci.tar`).entry.digest}`;
  const chart = `${repository}-chart@${openArchive(`${name}-chart.oci.tar`).entry.digest}`;
  const copy = 'skopeo copy --preserve-digests oci-archive';
  const attest = 'cosign attest --yes --type';
  const commands = publish('registry.example/net').stdout.trim().split('\n');
  expect(commands.map((line) => line.replaceAll(name, 'NAME'))).toEqual([
    `${copy.replace('copy', 'copy --all')}:NAME.oci.tar docker://${repository}:${version}`,
    `${copy}:NAME-chart.oci.tar docker://${repository}-chart:${version}`,
    `cosign sign --yes ${image} ${chart}`,
    `${attest} cyclonedx --predicate NAME-linux-amd64.cdx.json ${image}`,
    `${attest} cyclonedx --predicate NAME-linux-arm64.cdx.json ${image}`,
    `${attest} openvex --predicate NAME.openvex.json ${image}`,
    'cosign sign-blob --yes --bundle SHA256SUMS.sigstore.json SHA256SUMS',
    expect.stringMatching(/^gh release create v.* --verify-tag .* SHA256SUMS NAME-chart/),
  ]);
});

it('functions whose faults do not concern the image are not called by what is in it', () => {
  const programs = [process.execPath, join(root, 'build/Release/fairlead.node')];
  const linked = programs.map((path) => execFileSync('ldd', [path])).join();
  const libraries = [...linked.matchAll(/=> (\/\S+(?<!libc\.so\.6)) /g)].map(([, path]) => path!);
  const args = ['--dyn-syms', '--wide', ...programs, ...libraries];
  const symbols = execFileSync('readelf', args, { encoding: 'utf8', maxBuffer: 64 << 20 });
  const called = new Set([...symbols.matchAll(/ UND (\w+)@/g)].map(([, name]) => name!));
  expect(called).toContain('getaddrinfo');
  expect(unaffected.flatMap((one) => one.functions).filter((one) => called.has(one))).toEqual([]);
  const { statements } = JSON.parse(read(`fairlead-${version}.openvex.json`).toString());
  expect(statements[0].products[0].subcomponents).toEqual([{ '@id': bom.components[1]!.purl }]);
});

describe('the provenance of a release', () => {
  const statement = () => JSON.parse(read(`fairlead-${version}.provenance.json`).toString());

  it('names every other file, the image and the chart by their digests', () => {
    const { subject, _type, predicateType } = statement();
    expect(_type).toBe('https://in-toto.io/Statement/v1');
    expect(predicateType).toBe('https://slsa.dev/provenance/v1');
    const digests = new Map<string, string>(
      subject.map((one: { name: string; digest: { sha256: string } }) => [
        one.name,
        one.digest.sha256,
      ]),
    );
    const { entry } = openArchive(`fairlead-${version}.oci.tar`);
    expect(`sha256:${digests.get(repository)}`).toBe(entry.digest);
    const others = /^SHA256SUMS|\.sig$|^cosign\.pub$|provenance/;
    const names = readdirSync(join(folder, 'first')).filter((name) => !others.test(name));
    for (const name of names) expect(digests.get(name), name).toBe(sha256(read(name)));
  });

  it('names the commit, the builder and the packages in use', () => {
    const { buildDefinition, runDetails } = statement().predicate;
    expect(runDetails.builder.id).toBe('https://example.com/builder');
    expect(buildDefinition.externalParameters).toEqual({
      version,
      sourceDateEpoch: epoch,
      repository,
    });
    expect(buildDefinition.resolvedDependencies).toEqual([
      {
        uri: `git+${url}`,
        digest: { gitCommit: '0123456789abcdef0123456789abcdef01234567' },
      },
      {
        name: 'package-lock.json',
        digest: { sha256: sha256(readFileSync(join(root, 'package-lock.json'))) },
      },
      { uri: 'pkg:deb/debian/libc6@2.36-9?arch=amd64' },
      { uri: 'pkg:npm/pino@1.0.0' },
    ]);
  });

  it('is signed as a DSSE envelope', () => {
    const envelope = JSON.parse(read(`fairlead-${version}.provenance.dsse.json`).toString());
    const payload = Buffer.from(envelope.payload, 'base64');
    expect(payload).toEqual(read(`fairlead-${version}.provenance.json`));
    const head = `DSSEv1 28 application/vnd.in-toto+json ${payload.length} `;
    const encoded = Buffer.concat([Buffer.from(head), payload]);
    const signature = Buffer.from(envelope.signatures[0].sig, 'base64');
    expect(verify('sha256', encoded, publicKey, signature)).toBe(true);
  });
});

it('the kubectl plugin is packed for krew, with the checksum of its archive', () => {
  const packed = `kubectl-fairlead-${version}.tar.gz`;
  const { metadata, spec } = parse(read(`fairlead-${version}.krew.yaml`).toString());
  const [platform] = spec.platforms;
  expect([metadata.name, spec.version, platform.sha256, platform.uri]).toEqual([
    ...['fairlead', `v${version}`, sha256(read(packed))],
    `${url}/releases/download/v${version}/${packed}`,
  ]);
  const program = execFileSync('tar', ['-xzOf', made(packed), platform.bin]);
  expect(program).toEqual(read('kubectl-fairlead'));
  const listed = execFileSync('tar', ['-tvzf', made(packed)], { encoding: 'utf8' });
  expect(listed).toMatch(/^-rwxr-xr-x .* kubectl-fairlead$/m);
  expect(platform.files.map(({ from }: { from: string }) => from).sort()).toEqual(
    listed
      .trim()
      .split('\n')
      .map((line) => line.split(' ').at(-1))
      .sort(),
  );
});

it('the systemd unit starts the program like the image', () => {
  const unit = readFileSync(join(root, 'deploy/systemd/fairlead.service'), 'utf8');
  const { env } = image('0');
  for (const entry of env) expect(unit).toContain(`Environment="${entry}"\n`);
  expect(unit).toContain('ExecStart=/usr/local/bin/fairlead ');
});

describe('release notes', () => {
  const changelog =
    '# Changelog\n\n## 0.2.0, 2026-12-01\n\nNew.\n\n### A\n\n- b\n\n## 0.1.0\n\nOld.\n';

  it('are the section of the version', () => {
    expect(releaseNotes(changelog, '0.2.0')).toBe('# Fairlead 0.2.0\n\nNew.\n\n### A\n\n- b\n');
    expect(releaseNotes(changelog, '0.1.0')).toBe('# Fairlead 0.1.0\n\nOld.\n');
  });

  it('are an error if the version has no section', () => {
    expect(() => releaseNotes(changelog, '0.1')).toThrow('CHANGELOG.md has no section 0.1');
  });
});
