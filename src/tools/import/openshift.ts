/**
 * From OpenShift's `Network.operator.openshift.io`: `spec.kubeProxyConfig` holds one sync period
 * and a map of kube-proxy's flags, which win over it; `spec.clusterNetwork` gives the cluster CIDR.
 */
import { type FieldPath, fieldPaths, flagOf } from '../../config/settings/index.ts';
import { nearest } from '../../config/spelling.ts';
import { child, describeTree, formatProblem, type Tree, textAt } from '../../config/tree.ts';
import { rulesOf } from '../../config/types.ts';
import type { Conversion } from './conversion.ts';
import { contentsOf } from './find.ts';

const at = 'spec.kubeProxyConfig';

export function importOpenShift(bytes: Uint8Array, conversion: Conversion): void {
  const network = findNetwork(bytes, conversion);
  if (!network) return;
  const spec = child(network, 'spec')?.tree;
  const config = child(spec, 'kubeProxyConfig')?.tree;
  const given: Arguments = new Map();
  for (const [name, value] of Object.entries(standardArguments)) {
    given.set(name, { value, from: "the operator's default" });
  }
  clusterNetwork(spec, conversion, given);
  proxyConfig(config, conversion, given);
  noteOthers(spec, conversion);
  take(given, conversion);
}

/** The Network itself, or the one in the List that `oc get … -o yaml` prints. */
function findNetwork(bytes: Uint8Array, conversion: Conversion): Tree | undefined {
  const { found, problems } = contentsOf(bytes, 'kubeProxyConfig');
  const networks = found.filter(
    ({ tree }) =>
      textAt(tree, 'kind') === 'Network' &&
      textAt(tree, 'apiVersion')?.startsWith('operator.openshift.io/'),
  );
  if (networks.length === 1) return networks[0]!.tree;
  for (const problem of problems) conversion.errors.push(formatProblem(problem));
  const count = networks.length === 0 ? 'none is' : `${networks.length} are`;
  conversion.fail('file', `one Network of operator.openshift.io/v1 is needed, ${count} in it`);
  return undefined;
}

/** A lone block, or one of each family, is what the operator hands to kube-proxy. */
function clusterNetwork(spec: Tree | undefined, conversion: Conversion, into: Arguments): void {
  const from = 'spec.clusterNetwork';
  const list = child(spec, 'clusterNetwork')?.tree;
  const cidrs = list?.kind === 'list' ? list.items.map((item) => textAt(item, 'cidr')) : [];
  const known = cidrs.filter((cidr) => cidr !== undefined);
  if (known.length === 0) return;
  const families = new Set(known.map((cidr) => cidr.includes(':')));
  if (families.size === known.length) {
    into.set('cluster-cidr', { value: known.join(','), from });
    return;
  }
  conversion.leaveOut(from, `clusterCIDR takes one block a family, not ${known.join(', ')}`);
}

/** The operator's arguments that are not kube-proxy's flags of the same name. */
const ownArguments: Readonly<Record<string, FieldPath>> = {
  'enable-profiling': 'enableProfiling',
  'iptables-max-sync-period': 'iptables.maxSyncPeriod',
  'iptables-min-sync-period': 'iptables.minSyncPeriod',
  'iptables-sync-period': 'iptables.syncPeriod',
  'ipvs-min-sync-period': 'ipvs.minSyncPeriod',
  'ipvs-sync-period': 'ipvs.syncPeriod',
  'ipvs-tcp-fin-timeout': 'ipvs.tcpFinTimeout',
  'masquerade-all': 'iptables.masqueradeAll',
  'nftables-masquerade-all': 'nftables.masqueradeAll',
  'nftables-masquerade-bit': 'nftables.masqueradeBit',
  'nftables-min-sync-period': 'nftables.minSyncPeriod',
  'nftables-sync-period': 'nftables.syncPeriod',
  'node-port-addresses': 'nodePortAddresses',
  'proxy-port-range': 'portRange',
  'udp-timeout': 'udpIdleTimeout',
};

/** Flags that the operator refuses as unused arguments. */
const notArguments: ReadonlySet<string> = new Set([
  'ipvs-tcpfin-timeout',
  'nodeport-addresses',
  'profiling',
]);

/** An address and a port, as the operator joins them. */
const addresses = {
  healthzBindAddress: { address: 'healthz-bind-address', port: 'healthz-port', standard: 10256 },
  metricsBindAddress: { address: 'metrics-bind-address', port: 'metrics-port', standard: 10249 },
} as const;

/** What the operator gives kube-proxy if the Network does not. */
const standardArguments: Readonly<Record<string, string>> = {
  'metrics-bind-address': '0.0.0.0',
  'metrics-port': '29102',
  'healthz-port': '10255',
  'proxy-mode': 'iptables',
};

interface Argument {
  readonly value: string;
  readonly from: string;
}

/** All arguments by their names; what comes later wins. */
type Arguments = Map<string, Argument>;

function proxyConfig(config: Tree | undefined, conversion: Conversion, into: Arguments): void {
  if (config === undefined) {
    conversion.note(at, "not given: kube-proxy runs with the operator's defaults");
    return;
  }
  if (config.kind !== 'map') {
    conversion.fail(at, `must be a mapping, not ${describeTree(config)}`);
    return;
  }
  const late: Arguments = new Map();
  for (const [name, entry] of config.entries) {
    const from = `${at}.${name}`;
    const argument = { iptablesSyncPeriod: 'iptables-sync-period', bindAddress: 'bind-address' };
    const known = Object.entries(argument).find(([field]) => field === name)?.[1];
    if (name === 'proxyArguments') proxyArguments(entry.tree, conversion, late);
    else if (known === undefined) conversion.leaveOut(from, 'it is not known');
    else if (entry.tree.kind === 'string') into.set(known, { value: entry.tree.value, from });
    else if (entry.tree.kind !== 'null') {
      conversion.fail(from, `must be a string, not ${describeTree(entry.tree)}`);
    }
  }
  for (const [name, argument] of late) into.set(name, argument);
}

function proxyArguments(tree: Tree, conversion: Conversion, into: Arguments): void {
  const from = `${at}.proxyArguments`;
  if (tree.kind === 'null') return;
  if (tree.kind !== 'map') {
    conversion.fail(from, `must be a mapping of flags, not ${describeTree(tree)}`);
    return;
  }
  for (const [name, entry] of tree.entries) {
    const values = entry.tree.kind === 'list' ? entry.tree.items : [entry.tree];
    for (const value of values) {
      // The operator takes the last value.
      if (value.kind === 'string') into.set(name, { value: value.value, from: `${from}.${name}` });
      else {
        const rule = 'must be a list of strings; put quotes around';
        conversion.fail(`${from}.${name}`, `${rule} ${describeTree(value)}`);
      }
    }
  }
}

/** The operator writes each argument into its own field, whatever the mode. */
function take(given: Arguments, conversion: Conversion): void {
  for (const [field, { address, port, standard }] of Object.entries(addresses)) {
    const host = given.get(address);
    const number = given.get(port);
    given.delete(address);
    given.delete(port);
    const { from } = host ?? number ?? { from: '' };
    if (from === '') continue;
    const value = `${host?.value ?? '0.0.0.0'}:${number?.value ?? standard}`;
    takeText(from, field as keyof typeof addresses, value, conversion);
  }
  for (const [name, { value, from }] of given) {
    const field = fieldOf(name);
    if (value === '') continue;
    if (field === undefined) conversion.fail(from, unknownArgument(name));
    else takeText(from, field, value, conversion);
  }
}

function takeText(from: string, field: FieldPath, text: string, conversion: Conversion): void {
  const parsed = rulesOf(field).parse(text);
  if (parsed.ok) conversion.takeField(from, field, parsed.value);
  else conversion.fail(from, `${field}: ${parsed.error}`);
}

function fieldOf(name: string): FieldPath | undefined {
  if (Object.hasOwn(ownArguments, name)) return ownArguments[name];
  return notArguments.has(name) ? undefined : fieldPaths.find((path) => flagOf(path) === name);
}

function unknownArgument(name: string): string {
  const flags = fieldPaths.map((path) => flagOf(path) ?? '');
  const guess = nearest(name, [...Object.keys(ownArguments), ...flags]);
  const hint = guess === undefined ? '' : ` (did you mean ${guess}?)`;
  return `is not an argument that the operator knows${hint}`;
}

/** Other parts of the spec are the operator's business. */
function noteOthers(spec: Tree | undefined, conversion: Conversion): void {
  if (spec?.kind !== 'map') return;
  const taken = ['kubeProxyConfig', 'clusterNetwork'];
  const others = [...spec.entries.keys()].filter((name) => !taken.includes(name));
  for (const name of others) conversion.leaveOut(`spec.${name}`, 'not for the proxy');
}
