/**
 * Writes the pages of docs that are made from the program's own tables, and the dashboard.
 * `--check` writes nothing and fails when a file differs.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { flagMeaning, formerFlags } from '../src/config/flags.ts';
import { ownRelease, proxyGates, stageIn } from '../src/config/gates.ts';
import { shownDefault } from '../src/config/help.ts';
import { modeDifferences } from '../src/config/mode-differences.ts';
import {
  type FieldPath,
  fieldPaths,
  flagKeys,
  flagOf,
  type SettingKey,
  settingTable,
} from '../src/config/settings/index.ts';
import { type FlagGroup, flagGroups, type Setting } from '../src/config/settings/spec.ts';
import { rulesOf } from '../src/config/types.ts';
import { settingRules } from '../src/config/validate.ts';
import { defaultSettings } from '../src/config/values.ts';
import { kubernetesVersion } from '../src/config/version.ts';
import { addedFields, defaultsOf, fileFields, pathInV1alpha2 } from '../src/config/versions.ts';
import { annotationsPage } from './annotations-page.ts';
import { apiPage } from './api-page.ts';
import { chartPages } from './chart-docs.ts';
import { dashboard } from './dashboard/index.ts';
import { defectsPage } from './defects-page.ts';
import { figureTable, runTable, withResults } from './figures.ts';
import { howItWorksSvg } from './how-it-works.ts';
import { logPage } from './log-page.ts';
import { manPage } from './man-page.ts';
import { code, notice, table } from './markdown.ts';
import { metricsPage } from './metrics-page.ts';
import { oneChangeSvg } from './one-change.ts';

function flagRow(key: SettingKey): string[] {
  const { shorthand, origin, deprecated, withConfig } = settingTable[key];
  const short = shorthand === undefined ? '' : `${code(`-${shorthand}`)}, `;
  const rules = settingRules(key);
  const isInField = !key.startsWith('--') && flagMeaning(key) === settingTable[key].meaning;
  const marks = [
    isInField ? '' : flagMeaning(key),
    origin === 'own' ? 'Not a flag of kube-proxy.' : '',
    deprecated === undefined ? '' : `Deprecated: ${deprecated}`,
    rules === '' ? '' : `Value: ${rules}.`,
  ].filter((mark) => mark !== '');
  return [
    `${short}${code(`--${flagOf(key)}`)}`,
    rulesOf(key).shown || 'bool',
    code(shownDefault(key)),
    withConfig === 'kept' || key === '--config' ? 'yes' : 'no',
    key.startsWith('--') ? '' : code(key),
    marks.join(' '),
  ];
}

function flagsPage(): string {
  const head = ['Flag', 'Type', 'Default', 'With `--config`', 'Field of the file', 'Meaning'];
  const groups = (Object.keys(flagGroups) as FlagGroup[]).map((group) => {
    const keys = [...flagKeys.values()].filter((key) => settingTable[key].group === group);
    return `## ${flagGroups[group]}\n\n${table(head, keys.map(flagRow))}\n`;
  });
  const former = Object.entries(formerFlags).map(([name, hint]) => [code(`--${name}`), hint]);
  return `# Flags

${notice}

Fairlead takes the flags of kube-proxy ${kubernetesVersion} on Linux, in the same syntax:
\`--name=value\` or \`--name value\`; booleans are switched off with \`--name=false\`; underscores
in names count as hyphens. An empty default is 0, false or empty. Durations are numbers with
units: \`250ms\`, \`30s\`, \`1h30m\`.

With \`--config FILE\`, the file counts and most flags do not, as in kube-proxy; the column
“With \`--config\`” says which still do. The flags that are dropped are named in a warning.

A flag with a field means what the field means: [configuration.md](configuration.md), or
\`fairlead help flags\`.

${groups.join('\n')}
## Flags that are not known

kube-proxy no longer knows these either, or has them on Windows only. They end the start with an
error that says what to do instead.

${table(['Flag', 'Instead'], former)}
`;
}

/** The section of a field on the configuration page: the first part of its path. */
function sectionOf(path: FieldPath): string {
  return path.includes('.') ? path.slice(0, path.indexOf('.')) : '';
}

/** Whether a change in the file takes effect while running; empty = the field has no effect. */
function liveness({ meaning, origin, restart }: Setting): string {
  if (origin === 'windows' || meaning.includes('without effect')) return '';
  if (restart === undefined) return 'yes';
  return restart === 'always' ? 'no' : 'not while its mode runs';
}

function fieldRow(path: FieldPath): string[] {
  const spec = settingTable[path];
  const marks = {
    older: 'Gone from kube-proxy, where it is ignored.',
    own: 'Not in kube-proxy.',
    windows: 'For Windows nodes: accepted, without effect.',
  };
  const where = spec.checkedIn?.map((mode) => mode || 'empty').join(', ');
  const zero = rulesOf(path).name === 'boolean' ? 'false is kept' : '0 is kept';
  const rules = [
    settingRules(path),
    spec.keepsZero === true ? zero : '',
    where === undefined ? '' : `enforced in mode ${where}`,
  ];
  return [
    code(path),
    rulesOf(path).name,
    code(rulesOf(path).format(defaultSettings[path])),
    rules.filter((rule) => rule !== '').join('; '),
    spec.flag === undefined ? '' : code(`--${spec.flag}`),
    liveness(spec),
    [spec.meaning, spec.origin === undefined ? '' : marks[spec.origin]].join(' ').trim(),
  ];
}

/** Fields that v1alpha2 has elsewhere. */
function movedFields(): string[][] {
  return fieldPaths.flatMap((path) => {
    const moved = pathInV1alpha2(path);
    if (moved === path) return [];
    const [instead] = [...fileFields.v1alpha2].find(([, { gives }]) => gives.includes(path)) ?? [];
    return [[code(path), instead === undefined ? 'is dropped' : code(instead)]];
  });
}

function changedDefault([path, value]: [string, unknown]): string {
  return `| ${code(path)} | ${code(String(defaultSettings[path as FieldPath]))} | ${code(String(value))} |`;
}

function configurationPage(): string {
  const head = [
    'Field',
    'Type',
    'Default',
    'Bounds',
    'Flag',
    'Can change while running',
    'Meaning',
  ];
  const sections = [...new Set(['', ...fieldPaths.map(sectionOf)])].map((section) => {
    const title = section === '' ? 'Fields outside sections' : `Section \`${section}\``;
    const rows = fieldPaths.filter((path) => sectionOf(path) === section).map(fieldRow);
    return `## ${title}\n\n${table(head, rows)}\n`;
  });
  const gates = Object.entries(proxyGates).map(([name, gate]) => {
    const { stage, value, locked } = stageIn(gate, ownRelease);
    const history = gate.stages.map((one) => {
      const state = `${one.value ? 'on' : 'off'}${one.locked ? ', locked' : ''}`;
      return `${one.since} ${one.stage} ${state}`;
    });
    return [
      code(name),
      stage,
      code(String(gate.ours ?? value)),
      locked ? 'no' : 'yes',
      history.join('; '),
      gate.meaning,
    ];
  });
  return `# Configuration file

${notice}

\`--config FILE\` takes a KubeProxyConfiguration as kube-proxy ${kubernetesVersion} does,
in YAML or JSON:

\`\`\`yaml
apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
mode: nftables
clusterCIDR: 10.244.0.0/16
nftables:
  syncPeriod: 30s
\`\`\`

- Unknown fields and fields that stand twice are accepted with a warning; the last one counts. A
  value of the wrong type or out of bounds ends the start; all errors are shown, with lines.
- \`null\` means “not given”. So do 0, false and empty values, except where the table says that they are kept.
- Durations are strings of numbers with units: \`"250ms"\`, \`"30s"\`, \`"1h30m"\`. ISO 8601
  durations are not taken here; \`fairlead config convert --from ovhcloud\` translates them.
- IPv4 addresses and prefix lengths may have leading zeros, which do not make them octal.
- Each mode reads its own section; iptables and ipvs mode share \`iptables.masqueradeBit\` and
  \`iptables.masqueradeAll\`, iptables and userspace mode the rest of \`iptables\`. With an empty \`mode\`, and after
  falling back, a mode whose section gives nothing takes what the section of the requested mode
  gives (an empty \`mode\` counts as iptables).
- A change of the file takes effect immediately where the table says so; any other change ends the
  process, so that its supervisor starts a new one.
- The file has at most 1 MiB. A start reads its first document, and warns of others.
- \`fairlead config validate FILE\` checks a file, or the one configuration within it (a later document, a List, a ConfigMap,
  Helm values); \`--write-config-to\` writes the effective one.

${sections.join('\n')}
## v1alpha2

Fairlead also reads \`apiVersion: kubeproxy.config.k8s.io/v1alpha2\`, as KEP-784 describes it. kube-proxy
does not read it yet, up to 1.37, so that the names may still change. Everything that is written
(\`--write-config-to\`, /configz) is v1alpha1. A field has the name, meaning and default that it has in
v1alpha1, except for these:

${table(['In v1alpha1', 'In v1alpha2'], movedFields())}

| Default | In v1alpha1 | In v1alpha2 |
| --- | --- | --- |
${Object.entries(defaultsOf.v1alpha2).map(changedDefault).join('\n')}

v1alpha2 also has these fields:

${table(
  ['Field', 'Type', 'Meaning'],
  addedFields.map(({ name, type, meaning }) => [code(name), type, meaning]),
)}

## Feature gates

Gates of other parts of Kubernetes 1.29 to 1.38 are accepted and change nothing here; any other
name is an error. A gate that kube-proxy ${ownRelease} does not know is reported in a warning.
\`AllAlpha\` and \`AllBeta\` set all gates of a stage that are not named themselves.

The column “kube-proxy by release” has the stages of each gate; what it says of releases after 1.37
is what the enhancement proposals plan. Stage and default are those of Fairlead, which follows
${ownRelease}.

${table(['Gate', 'Stage', 'Default', 'Can be changed', 'kube-proxy by release', 'Meaning'], gates)}
`;
}

/** What becomes of each setting of an ipvs user. */
function ipvsTable(): string {
  const rows = fieldPaths.flatMap((path) => {
    const { forIpvs } = settingTable[path];
    return forIpvs === undefined ? [] : [[code(path), forIpvs.kept, forIpvs.nftables]];
  });
  return table(['Setting', "In Fairlead's mode ipvs", 'In mode nftables'], rows);
}

/** What packets meet in each mode. */
function modeTable(): string {
  const rows = modeDifferences.map(({ packets, iptables, empty, nftables, instead }) => {
    return [packets, iptables, empty ?? 'as with `iptables`', nftables, instead];
  });
  const iptables = '`iptables`, and kube-proxy\'s `""`';
  return table(['Packets', iptables, '`""`', '`nftables`', 'instead, in mode nftables'], rows);
}

function written(name: string): string {
  return readFileSync(fileURLToPath(new URL(`../${name}`, import.meta.url)), 'utf8');
}

/** A page that people write, with the parts between two marks generated. */
function withSections(name: string, sections: Readonly<Record<string, string>>): string {
  let page = written(name);
  for (const [section, text] of Object.entries(sections)) {
    page = withSection(name, page, section, text);
  }
  return page;
}

function withSection(name: string, page: string, section: string, text: string): string {
  const start = `<!-- ${section}: written by scripts/docs.ts -->\n`;
  const end = `<!-- ${section}: end -->\n`;
  const [before, rest] = page.split(start);
  const after = rest?.split(end)[1];
  if (after === undefined) throw new Error(`${name} has no section ${section}`);
  return `${before}${start}\n${text}\n\n${end}${after}`;
}

/** The text of each page by its path in the repository. */
export const pages: Readonly<Record<string, string>> = {
  'docs/flags.md': flagsPage(),
  'docs/configuration.md': configurationPage(),
  'docs/annotations.md': annotationsPage(),
  'docs/logs.md': logPage(),
  'docs/metrics.md': metricsPage(),
  'docs/api.md': apiPage(),
  'docs/fairlead.8': manPage(),
  'docs/internals/simulation-defects.md': defectsPage(),
  'docs/how-it-works.svg': howItWorksSvg(),
  'docs/one-change.svg': oneChangeSvg(),
  'docs/migrating.md': withSections('docs/migrating.md', {
    modes: modeTable(),
    ipvs: ipvsTable(),
  }),
  'docs/performance.md': withResults(written('docs/performance.md')),
  'docs/scale.md': withResults(written('docs/scale.md')),
  'bench/README.md': withSections('bench/README.md', { figures: figureTable(), runs: runTable() }),
  'deploy/grafana/fairlead.json': dashboard(),
  ...chartPages(new URL('..', import.meta.url)),
};

function main(mode: 'write' | 'check'): void {
  for (const [name, text] of Object.entries(pages)) {
    const path = fileURLToPath(new URL(`../${name}`, import.meta.url));
    if (mode === 'write') writeFileSync(path, text);
    else if (readFileSync(path, 'utf8') !== text) {
      console.error(`${name} differs from the tables: run node scripts/docs.ts`);
      process.exitCode = 1;
    }
  }
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) {
  main(process.argv.includes('--check') ? 'check' : 'write');
}
