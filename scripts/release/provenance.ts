/** Says what a release was made from, as an in-toto statement with SLSA provenance v1. */

export interface Subject {
  readonly name: string;
  /** `sha256:` and hex digits. */
  readonly digest: string;
}

export interface ProvenanceOptions {
  readonly version: string;
  /** The hash of the git commit. */
  readonly commit: string;
  /** Where the sources are published. */
  readonly url: string | undefined;
  /** Who ran the build: a URI. */
  readonly builder: string;
  readonly parameters: Readonly<Record<string, unknown>>;
  /** Package URLs of what npm and Debian provide. */
  readonly packages: readonly string[];
  /** The digest of package-lock.json, which has the checksums of npm's packages. */
  readonly lockDigest: string;
  readonly subjects: readonly Subject[];
}

const hex = (digest: string) => ({ sha256: digest.replace(/^sha256:/, '') });

/** Returns the statement as JSON. It has no times, so that the same release has the same one. */
export function provenanceOf(options: ProvenanceOptions): string {
  const { version, commit, url, builder, parameters, packages, lockDigest, subjects } = options;
  const source = {
    uri: url === undefined ? 'git:fairlead' : `git+${url}`,
    digest: { gitCommit: commit },
  };
  const lock = { name: 'package-lock.json', digest: hex(lockDigest) };
  const statement = {
    _type: 'https://in-toto.io/Statement/v1',
    subject: subjects.map(({ name, digest }) => ({ name, digest: hex(digest) })),
    predicateType: 'https://slsa.dev/provenance/v1',
    predicate: {
      buildDefinition: {
        buildType: 'urn:fairlead:npm-run-release:v1',
        externalParameters: { version, ...parameters },
        resolvedDependencies: [source, lock, ...packages.map((uri) => ({ uri }))],
      },
      runDetails: { builder: { id: builder } },
    },
  };
  return `${JSON.stringify(statement, undefined, 2)}\n`;
}
