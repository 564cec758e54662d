/** Says in OpenVEX 0.2.0 which findings of scanners do not concern the image. */

interface Unaffected {
  readonly name: string;
  /** Debian's package that scanners name. */
  readonly of: string;
  /** What no program of the image may import: a test looks. Empty if no library has it. */
  readonly functions: readonly string[];
  readonly impact: string;
}

/** Debian leaves these open. What concerns the image is fixed by a newer package in its place. */
export const unaffected: readonly Unaffected[] = [
  {
    name: 'CVE-2010-4756',
    of: 'libc6',
    functions: ['glob', 'glob64'],
    impact: 'It is in glob(), which no program of the image calls.',
  },
  {
    name: 'CVE-2018-20796',
    of: 'libc6',
    functions: ['regcomp', 'regexec', 're_search', 're_match'],
    impact: 'It is in regexec(), which no program of the image calls.',
  },
  {
    name: 'CVE-2019-9192',
    of: 'libc6',
    functions: ['regcomp', 'regexec', 're_search', 're_match'],
    impact: 'It is in regexec(), which no program of the image calls.',
  },
  {
    name: 'CVE-2019-1010023',
    of: 'libc6',
    functions: [],
    impact: 'It is in ldd, which the image does not have.',
  },
];

export interface VexOptions {
  readonly version: string;
  /** In seconds since 1970. */
  readonly epoch: number;
  readonly image: { readonly repository: string; readonly digest: string };
  /** Package URLs of what is in the image. */
  readonly packages: readonly string[];
}

/** Returns the document as JSON. */
export function vexOf({ version, epoch, image, packages }: VexOptions): string {
  const { repository, digest } = image;
  const name = repository.slice(repository.lastIndexOf('/') + 1);
  const product = `pkg:oci/${name}@${encodeURIComponent(digest)}?repository_url=${encodeURIComponent(repository)}`;
  const statements = unaffected.map(({ name, of, functions, impact }) => ({
    vulnerability: { name },
    products: [
      {
        '@id': product,
        subcomponents: packages
          .filter((purl) => purl.startsWith(`pkg:deb/debian/${of}@`))
          .map((purl) => ({ '@id': purl })),
      },
    ],
    status: 'not_affected',
    justification:
      functions.length === 0
        ? 'vulnerable_code_not_present'
        : 'vulnerable_code_not_in_execute_path',
    impact_statement: impact,
  }));
  const document = {
    '@context': 'https://openvex.dev/ns/v0.2.0',
    '@id': `urn:fairlead:vex:${version}`,
    author: 'Fairlead',
    timestamp: new Date(epoch * 1000).toISOString(),
    version: 1,
    statements,
  };
  return `${JSON.stringify(document, undefined, 2)}\n`;
}
