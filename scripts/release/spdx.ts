/** Translates a list of components from CycloneDX to SPDX 2.3. */

interface Component {
  readonly name: string;
  readonly version: string;
  readonly purl: string;
  readonly licenses?: readonly {
    readonly license?: { readonly id?: string };
    readonly expression?: string;
  }[];
}

interface Bom {
  readonly serialNumber: string;
  readonly metadata: { readonly timestamp: string; readonly component: { readonly name: string } };
  readonly components: readonly Component[];
}

const unknown = 'NOASSERTION';

/** `text` is a CycloneDX document in JSON, of an image of this version. */
export function spdxOf(text: string, version: string): string {
  const { serialNumber, metadata, components } = JSON.parse(text) as Bom;
  const { name } = metadata.component;
  const image = packageOf('SPDXRef-image', { name, version });
  const parts = components.map((component, i) => packageOf(`SPDXRef-${i + 1}`, component));
  const described = {
    spdxElementId: 'SPDXRef-DOCUMENT',
    relationshipType: 'DESCRIBES',
    relatedSpdxElement: 'SPDXRef-image',
  };
  const contained = parts.map(({ SPDXID }) => ({
    spdxElementId: 'SPDXRef-image',
    relationshipType: 'CONTAINS',
    relatedSpdxElement: SPDXID,
  }));
  const document = {
    spdxVersion: 'SPDX-2.3',
    dataLicense: 'CC0-1.0',
    SPDXID: 'SPDXRef-DOCUMENT',
    name: `${name}-${version}`,
    documentNamespace: serialNumber,
    creationInfo: {
      // The format has no fractions of seconds.
      created: metadata.timestamp.replace(/\.\d+Z$/, 'Z'),
      creators: [`Tool: fairlead-release-${version}`],
    },
    packages: [image, ...parts],
    relationships: [described, ...contained],
  };
  return `${JSON.stringify(document, undefined, 2)}\n`;
}

function packageOf(SPDXID: string, component: Omit<Component, 'purl'> & { purl?: string }) {
  const { name, version, purl, licenses } = component;
  const reference = {
    referenceCategory: 'PACKAGE-MANAGER',
    referenceType: 'purl',
    referenceLocator: purl,
  };
  const [licence] = licenses ?? [];
  return {
    SPDXID,
    name,
    versionInfo: version,
    downloadLocation: unknown,
    filesAnalyzed: false,
    licenseConcluded: unknown,
    licenseDeclared: licence?.expression ?? licence?.license?.id ?? unknown,
    copyrightText: unknown,
    ...(purl === undefined ? {} : { externalRefs: [reference] }),
  };
}
