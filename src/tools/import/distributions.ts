/** From the configurations of distributions that start kube-proxy with arguments of their own. */
import { type FieldPath, fieldPaths } from '../../config/settings/index.ts';
import { child, describeTree, type Tree, textAt } from '../../config/tree.ts';
import { rulesOf } from '../../config/types.ts';
import type { Conversion } from './conversion.ts';
import { contentsOf } from './find.ts';
import { type FlagWord, importCommandLine, importFlags } from './flags.ts';

/** How a distribution writes down what kube-proxy gets. */
interface Distribution {
  /** The keys that lead to it, from the outermost; the first may be anywhere in the file. */
  readonly at: readonly string[];
  /** What the distribution passes unless the file says otherwise. */
  readonly standard: readonly string[];
  /** The command line that the settings become. Fields of the file's form are taken directly. */
  readonly read: (tree: Tree, at: string, conversion: Conversion) => FlagWord[];
}

const distributions = {
  /** And RKE2; pkg/daemons/agent of k3s. */
  k3s: {
    at: ['kube-proxy-arg'],
    standard: [
      '--proxy-mode=iptables',
      '--healthz-bind-address=127.0.0.1',
      '--conntrack-max-per-core=0',
      '--conntrack-tcp-timeout-established=0s',
      '--conntrack-tcp-timeout-close-wait=0s',
    ],
    read: argumentList,
  },
  rke: { at: ['services', 'kubeproxy', 'extra_args'], standard: [], read: argumentMap },
  talos: { at: ['cluster', 'proxy'], standard: [], read: talosProxy },
  k0s: {
    at: ['network', 'kubeProxy'],
    standard: [],
    read: k0sProxy,
  },
  kops: { at: ['spec', 'kubeProxy'], standard: [], read: kopsProxy },
} satisfies Readonly<Record<string, Distribution>>;

export type DistributionName = keyof typeof distributions;
export const distributionNames = Object.keys(distributions) as readonly DistributionName[];

export function importDistribution(
  name: DistributionName,
  bytes: Uint8Array,
  conversion: Conversion,
): void {
  const { at, read, standard }: Distribution = distributions[name];
  const path = at.join('.');
  const tree = treeAt(bytes, at, name === 'k3s', conversion);
  if (tree === undefined) {
    conversion.fail('file', `there is no ${path} in it`);
    return;
  }
  const words = read(tree, path, conversion);
  if (name === 'k0s') importFlags(words, conversion);
  else {
    const own = standard.map((word) => ({ word, from: `default of ${name}` }));
    importCommandLine([...own, ...words], conversion);
  }
}

/** What the keys lead to, or the document itself where that is a list of arguments. */
function treeAt(
  bytes: Uint8Array,
  at: readonly string[],
  mayBeList: boolean,
  conversion: Conversion,
): Tree | undefined {
  const { documents, found, problems } = contentsOf(bytes, at[0]!);
  const trees = found.map(({ tree }) => descend(tree, at)).filter((tree) => tree !== undefined);
  for (const problem of problems) conversion.note(`line ${problem.line}`, problem.text);
  return trees[0] ?? (mayBeList && documents[0]?.kind === 'list' ? documents[0] : undefined);
}

function descend(tree: Tree, at: readonly string[]): Tree | undefined {
  return at.reduce<Tree | undefined>((part, key) => child(part, key)?.tree, tree);
}

/** `[name=value, …]`, or one of them. */
function argumentList(tree: Tree, at: string, conversion: Conversion): FlagWord[] {
  return (tree.kind === 'list' ? tree.items : [tree]).flatMap((item) => {
    if (item.kind === 'string') return [{ word: `--${item.value.replace(/^--?/, '')}`, from: at }];
    conversion.fail(at, `must be a list of name=value, not ${describeTree(item)}`);
    return [];
  });
}

/** `name: value`, where the value may be a list of which the last one counts. */
function argumentMap(tree: Tree, at: string, conversion: Conversion): FlagWord[] {
  if (tree.kind !== 'map') {
    conversion.fail(at, `must be a mapping of arguments, not ${describeTree(tree)}`);
    return [];
  }
  return [...tree.entries].flatMap(([name, entry]) => wordFor(name, entry.tree, `${at}.${name}`));
}

function wordFor(flag: string, tree: Tree, from: string): FlagWord[] {
  const items = tree.kind === 'list' ? tree.items : [tree];
  return items.flatMap((item) => {
    const value = textOf(item);
    return value === undefined ? [] : [{ word: `--${flag}=${value}`, from }];
  });
}

function textOf(tree: Tree): string | undefined {
  if (tree.kind === 'string') return tree.value;
  if (tree.kind === 'number') return tree.text;
  if (tree.kind === 'bool') return String(tree.value);
  if (tree.kind !== 'map') return undefined;
  const pairs = [...tree.entries].map(([name, { tree: value }]) => `${name}=${textOf(value)}`);
  return pairs.join(',');
}

/** `mode`, `extraArgs`; machine configuration v1alpha1. */
function talosProxy(tree: Tree, at: string, conversion: Conversion): FlagWord[] {
  const mode = textAt(tree, 'mode');
  const extra = child(tree, 'extraArgs')?.tree;
  leaveOut(tree, ['mode', 'extraArgs'], at, conversion);
  return [
    ...(mode === undefined ? [] : [{ word: `--proxy-mode=${mode}`, from: `${at}.mode` }]),
    ...(extra === undefined ? [] : argumentMap(extra, `${at}.extraArgs`, conversion)),
  ];
}

/** What k0s writes into kube-proxy's file where its own has nothing. */
const k0sStandard: Readonly<Partial<Record<FieldPath, string>>> = {
  mode: 'iptables',
  metricsBindAddress: '0.0.0.0:10249',
};

/** Fields with the names of a KubeProxyConfiguration, which k0s writes; `extraArgs` are flags. */
function k0sProxy(tree: Tree, at: string, conversion: Conversion): FlagWord[] {
  const taken = ['extraArgs'];
  for (const path of fieldPaths) {
    const value = descend(tree, path.split('.'));
    if (value !== undefined) {
      taken.push(path.split('.', 1)[0]!);
      const decoded = rulesOf(path).decode(value);
      if (decoded.ok) conversion.takeField(`${at}.${path}`, path, decoded.value);
      else conversion.fail(`${at}.${path}`, decoded.error);
    } else if (k0sStandard[path] !== undefined) {
      conversion.take('default of k0s', path, k0sStandard[path]);
    }
  }
  leaveOut(tree, taken, at, conversion);
  const extra = child(tree, 'extraArgs')?.tree;
  return extra === undefined ? [] : argumentMap(extra, `${at}.extraArgs`, conversion);
}

/** Fields that are flags in another spelling: `ipvsExcludeCIDRs` is `--ipvs-exclude-cidrs`. */
function kopsProxy(tree: Tree, at: string, conversion: Conversion): FlagWord[] {
  if (tree.kind !== 'map') return argumentMap(tree, at, conversion);
  leaveOut(
    tree,
    [...tree.entries.keys()].filter((key) => !notOfProxy.has(key)),
    at,
    conversion,
  );
  return [...tree.entries].flatMap(([name, entry]) => {
    const flag = name.replaceAll(/(?<=[a-z])(?=[A-Z])/g, '-').toLowerCase();
    const known = flag === 'log-level' ? 'v' : flag;
    return notOfProxy.has(name) ? [] : wordFor(known, entry.tree, `${at}.${name}`);
  });
}

/** What kops uses itself. */
const notOfProxy: ReadonlySet<string> = new Set([
  'image',
  'cpuRequest',
  'cpuLimit',
  'memoryRequest',
  'memoryLimit',
  'enabled',
]);

function leaveOut(tree: Tree, taken: readonly string[], at: string, conversion: Conversion): void {
  for (const name of tree.kind === 'map' ? tree.entries.keys() : []) {
    if (!taken.includes(name)) conversion.leaveOut(`${at}.${name}`, 'not for the proxy');
  }
}
