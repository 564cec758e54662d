/**
 * From OpenShift's `Network.operator.openshift.io`: `spec.kubeProxyConfig` holds one sync period
 * and a map of kube-proxy's flags, which win over it; `spec.clusterNetwork` gives the cluster CIDR.
 */
import { child, describeTree, formatProblem, type Tree, textAt } from '../../config/tree.ts';
import { parseYaml } from '../../config/yaml.ts';
import type { Conversion } from './conversion.ts';
import { type FlagWord, importFlags } from './flags.ts';

const at = 'spec.kubeProxyConfig';

export function importOpenShift(bytes: Uint8Array, conversion: Conversion): void {
  const parsed = parseYaml(bytes);
  if (!parsed.ok) {
    for (const problem of parsed.problems) conversion.errors.push(formatProblem(problem));
    return;
  }
  for (const warning of parsed.warnings) conversion.notes.push(formatProblem(warning));
  const network = findNetwork(parsed.tree, conversion);
  if (!network) return;
  const spec = child(network, 'spec')?.tree;
  const config = child(spec, 'kubeProxyConfig')?.tree;
  const words = [...clusterNetwork(spec, conversion), ...proxyConfig(config, conversion)];
  noteOthers(spec, conversion);
  importFlags(words, conversion);
}

/** The Network itself, or the one in the List that `oc get … -o yaml` prints. */
function findNetwork(tree: Tree, conversion: Conversion): Tree | undefined {
  const kind = textAt(tree, 'kind');
  const listed = child(tree, 'items')?.tree;
  const candidates = kind === 'List' && listed?.kind === 'list' ? listed.items : [tree];
  const networks = candidates.filter(
    (candidate) =>
      textAt(candidate, 'kind') === 'Network' &&
      textAt(candidate, 'apiVersion')?.startsWith('operator.openshift.io/'),
  );
  if (networks.length === 1) return networks[0];
  const found = networks.length === 0 ? 'none is' : `${networks.length} are`;
  conversion.fail('file', `one Network of operator.openshift.io/v1 is needed, ${found} in it`);
  return undefined;
}

/** A lone block, or one of each family, is what the operator hands to kube-proxy. */
function clusterNetwork(spec: Tree | undefined, conversion: Conversion): FlagWord[] {
  const from = 'spec.clusterNetwork';
  const list = child(spec, 'clusterNetwork')?.tree;
  const cidrs = list?.kind === 'list' ? list.items.map((item) => textAt(item, 'cidr')) : [];
  const known = cidrs.filter((cidr) => cidr !== undefined);
  if (known.length === 0) return [];
  const families = new Set(known.map((cidr) => cidr.includes(':')));
  if (families.size === known.length) return [{ word: `--cluster-cidr=${known.join(',')}`, from }];
  conversion.note(from, `left out: clusterCIDR takes one block a family, not ${known.join(', ')}`);
  return [];
}

const plainFields: Readonly<Record<string, string>> = {
  iptablesSyncPeriod: 'iptables-sync-period',
  bindAddress: 'bind-address',
};

function proxyConfig(config: Tree | undefined, conversion: Conversion): FlagWord[] {
  if (config === undefined) {
    conversion.note(at, 'not given: kube-proxy runs with its defaults');
    return [];
  }
  if (config.kind !== 'map') {
    conversion.fail(at, `must be a mapping, not ${describeTree(config)}`);
    return [];
  }
  const words: FlagWord[] = [];
  const late: FlagWord[] = [];
  for (const [name, entry] of config.entries) {
    const from = `${at}.${name}`;
    const flag = Object.hasOwn(plainFields, name) ? plainFields[name] : undefined;
    if (name === 'proxyArguments') late.push(...proxyArguments(entry.tree, conversion));
    else if (flag === undefined) conversion.note(from, 'left out: it is not known');
    else if (entry.tree.kind === 'string') {
      words.push({ word: `--${flag}=${entry.tree.value}`, from });
    } else if (entry.tree.kind !== 'null') {
      conversion.fail(from, `must be a string, not ${describeTree(entry.tree)}`);
    }
  }
  return [...words, ...late];
}

function proxyArguments(tree: Tree, conversion: Conversion): FlagWord[] {
  const from = `${at}.proxyArguments`;
  if (tree.kind === 'null') return [];
  if (tree.kind !== 'map') {
    conversion.fail(from, `must be a mapping of flags, not ${describeTree(tree)}`);
    return [];
  }
  return [...tree.entries].flatMap(([name, entry]) => {
    const values = entry.tree.kind === 'list' ? entry.tree.items : [entry.tree];
    return values.flatMap((value) => {
      if (value.kind === 'string') {
        return [{ word: `--${name}=${value.value}`, from: `${from}.${name}` }];
      }
      const rule = 'must be a list of strings; put quotes around';
      conversion.fail(`${from}.${name}`, `${rule} ${describeTree(value)}`);
      return [];
    });
  });
}

/** Other parts of the spec are the operator's business. */
function noteOthers(spec: Tree | undefined, conversion: Conversion): void {
  if (spec?.kind !== 'map') return;
  const taken = ['kubeProxyConfig', 'clusterNetwork'];
  const others = [...spec.entries.keys()].filter((name) => !taken.includes(name));
  for (const name of others) conversion.note(`spec.${name}`, 'left out: not for the proxy');
}
