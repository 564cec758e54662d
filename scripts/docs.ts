/**
 * Writes the pages of docs that are made from the program's own tables, and the dashboard.
 * `--check` writes nothing and fails when a file differs.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { modeDifferences } from '../src/config/advice.ts';
import { flagMeaning, formerFlags } from '../src/config/flags.ts';
import { ownRelease, proxyGates, stageIn } from '../src/config/gates.ts';
import { shownDefault } from '../src/config/help.ts';
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
import { failureTable } from '../src/sync/after-failure.ts';
import { annotationsPage } from './annotations-page.ts';
import { apiPage } from './api-page.ts';
import { chartPages } from './chart-docs.ts';
import { dashboard } from './dashboard/index.ts';
import { figureTable, runTable, withResults } from './figures.ts';
import { howItWorksSvg } from './how-it-works.ts';
import { logPage } from './log-page.ts';
import { manPage } from './man-page.ts';
import { code, notice, table } from './markdown.ts';
import { metricsPage } from './metrics-page.ts';
import { oneChangeSvg } from './one-change.ts';

/** After names that kube-proxy does not have. */
const ownMark = ' †';

function flagRow(key: SettingKey): string[] {
  const { shorthand, origin, deprecated, withConfig } = settingTable[key];
  const short = shorthand === undefined ? '' : `${code(`-${shorthand}`)}, `;
  const rules = settingRules(key);
  const isOfField = !key.startsWith('--');
  const isInField = isOfField && flagMeaning(key) === settingTable[key].meaning;
  const marks = [
    isInField ? '' : flagMeaning(key),
    deprecated === undefined ? '' : 'Deprecated.',
    isOfField || rules === '' ? '' : `${rules}.`,
  ].filter((mark) => mark !== '');
  const kept = withConfig === 'kept' || key === '--config' ? ' *' : '';
  return [
    `${short}${code(`--${flagOf(key)}`)}${kept}${origin === 'own' ? ownMark : ''}`,
    `${rulesOf(key).shown || 'bool'} ${code(shownDefault(key))}`.trim(),
    isOfField ? code(key) : '',
    marks.join(' '),
  ];
}

function flagsPage(): string {
  const head = ['Flag', 'Type, default', 'Field', 'Meaning'];
  const groups = (Object.keys(flagGroups) as FlagGroup[]).map((group) => {
    const keys = [...flagKeys.values()].filter((key) => settingTable[key].group === group);
    return `## ${flagGroups[group]}\n\n${table(head, keys.map(flagRow))}\n`;
  });
  const former = Object.entries(formerFlags).map(([name, hint]) => [code(`--${name}`), hint]);
  return `# Flags

${notice}

Fairlead takes the flags of kube-proxy ${kubernetesVersion} on Linux, in the same syntax:
\`--name=value\` or \`--name value\`; \`--name=false\` switches off; underscores in names count as
hyphens. Without a default, it is 0, false or empty. Durations are numbers with units: \`1h30m\`.

With \`--config FILE\`, the file counts, and only the flags marked * still do, as in kube-proxy. A
warning names the others. kube-proxy does not have the flags marked †.

What a flag with a field means, and its bounds: [configuration.md](configuration.md), or
\`fairlead help flags\`.

${groups.join('\n')}
## Flags that are not known

kube-proxy no longer has these, or on Windows only. They end the start with an error that says what
to do instead.

${table(['Flag', 'Instead'], former)}
`;
}

/** The section of a field: the first part of its path. */
function sectionOf(path: FieldPath): string {
  return path.includes('.') ? path.slice(0, path.indexOf('.')) : '';
}

/** What a change in the file needs, unless it takes effect while running, or never. */
function restartOf({ meaning, restart }: Setting): string {
  if (restart === undefined || meaning.includes('without effect')) return '';
  return restart === 'always' ? '*Restart.*' : '*Restart of the mode.*';
}

function fieldRow(path: FieldPath): string[] {
  const spec = settingTable[path];
  const older = 'kube-proxy ignores it.';
  const where = spec.checkedIn?.map((mode) => mode || 'empty').join(', ');
  const zero = rulesOf(path).name === 'boolean' ? 'false is kept' : '0 is kept';
  const rules = [
    settingRules(path),
    spec.keepsZero === true ? zero : '',
    where === undefined ? '' : `in mode ${where}`,
  ];
  const standard = code(rulesOf(path).format(defaultSettings[path]));
  const texts = [spec.meaning, spec.origin === 'older' ? older : '', restartOf(spec)];
  return [
    `${code(path)}${spec.origin === 'own' ? ownMark : ''}`,
    `${rulesOf(path).name} ${standard}`.trim(),
    rules.filter((rule) => rule !== '').join('; '),
    texts.filter((text) => text !== '').join(' '),
  ];
}

function configurationPage(): string {
  const head = ['Field', 'Type, default', 'Bounds', 'Meaning'];
  const windows = fieldPaths.filter((path) => settingTable[path].origin === 'windows');
  const fields = fieldPaths.filter((path) => settingTable[path].origin !== 'windows');
  const sections = [...new Set(fields.map(sectionOf))].sort();
  const rows = sections.flatMap((section) => {
    return fields.filter((path) => sectionOf(path) === section).map(fieldRow);
  });
  const gates = Object.entries(proxyGates).map(([name, gate]) => {
    const { stage, value, locked } = stageIn(gate, ownRelease);
    const history = gate.stages.map((one) => {
      const state = `${one.value ? 'on' : 'off'}${one.locked ? ', locked' : ''}`;
      return `${one.since} ${one.stage} ${state}`;
    });
    return [
      code(name),
      `${stage} ${code(String(gate.ours ?? value))}${locked ? ', locked' : ''}`,
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

- Unknown fields and fields that stand twice cause a warning; the last one counts. A value of the
  wrong type or out of bounds ends the start, which shows all errors with their lines.
- \`null\` means “not given”. So do 0, false and empty values, except where “is kept” says otherwise.
- Durations are numbers with units: \`"250ms"\`, \`"1h30m"\`. \`fairlead config convert --from ovhcloud\`
  translates ISO 8601 durations.
- Leading zeros in IPv4 addresses and prefix lengths do not make them octal.
- Each mode reads its own section. Modes iptables and ipvs share \`iptables.masqueradeBit\` and
  \`iptables.masqueradeAll\`; iptables and userspace share the rest of \`iptables\`. With an empty
  \`mode\`, and after a fallback, a mode without values takes those of the requested mode (if empty:
  iptables).
- A change of the file takes effect immediately, or where a field says *Restart* by ending the
  process, which its supervisor starts again.
- The file has at most 1 MiB. A start reads its first document, and warns of others.
- \`fairlead config validate FILE\` checks a file, or the one configuration in it (a later document, a
  List, a ConfigMap, Helm values). \`--write-config-to\` writes the effective one.
- kube-proxy does not have the fields marked †. [flags.md](flags.md) has the flag of each field.

## Fields

${table(head, rows)}

Fields for Windows nodes are accepted, without effect: ${windows.map(code).join(', ')}.

## Feature gates

Gates of other parts of Kubernetes 1.29 to 1.38 are accepted and change nothing; any other name is
an error. A warning names gates that kube-proxy ${ownRelease} does not know. \`AllAlpha\` and
\`AllBeta\` set all other gates of their stage.

Stage and default follow kube-proxy ${ownRelease}. Its stages after 1.37 are what the enhancement
proposals plan.

${table(['Gate', 'Stage, default', 'kube-proxy by release', 'Meaning'], gates)}
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
    return [packets, iptables, empty ?? '', nftables, instead];
  });
  const iptables = '`iptables`, and kube-proxy\'s `""`';
  return table(
    ['Packets', iptables, '`""`, unless the same', '`nftables`', 'instead, in mode nftables'],
    rows,
  );
}

/** What a family does after a failure. */
function failureRows(): string {
  const rows = failureTable.map(({ compares, repairs, what }) => {
    const reads = repairs === undefined ? 'no' : repairs;
    return [what, reads, compares ? 'yes' : 'no'];
  });
  return table(['What failed', 'The kernel is read and repaired', 'An audit compares'], rows);
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

/** What makes the text of each page, by its path in the repository. */
export const pages: Readonly<Record<string, () => string>> = {
  'docs/flags.md': flagsPage,
  'docs/configuration.md': configurationPage,
  'docs/annotations.md': annotationsPage,
  'docs/logs.md': logPage,
  'docs/metrics.md': metricsPage,
  'docs/api.md': apiPage,
  'docs/fairlead.8': manPage,
  'docs/how-it-works.svg': howItWorksSvg,
  'docs/one-change.svg': oneChangeSvg,
  'docs/migrating.md': () => withSections('docs/migrating.md', { modes: modeTable() }),
  'docs/from-ipvs.md': () => withSections('docs/from-ipvs.md', { ipvs: ipvsTable() }),
  'docs/internals/code.md': () =>
    withSections('docs/internals/code.md', { failures: failureRows() }),
  'docs/performance.md': () => withResults(written('docs/performance.md')),
  'docs/scale.md': () => withResults(written('docs/scale.md')),
  'bench/README.md': () =>
    withSections('bench/README.md', { figures: figureTable(), runs: runTable() }),
  'deploy/grafana/fairlead.json': dashboard,
  ...chartPages(new URL('..', import.meta.url)),
};

function main(mode: 'write' | 'check'): void {
  for (const [name, make] of Object.entries(pages)) {
    const text = make();
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
