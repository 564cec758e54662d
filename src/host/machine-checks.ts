/**
 * What Services rely on of this machine, and other programs must set right: one rule for each fact.
 * `fairlead preflight` prints all of them, and the running proxy those that are not right.
 */
import type { Family } from '../net/address.ts';
import type { FolderFiles, ReadableFiles } from './files.ts';
import { type Finding, ok, problem, warning } from './finding.ts';
import { forwardingPaths } from './routing.ts';

/** What the machine is used for. */
export interface MachineUse {
  /** Those of Services. */
  readonly families: readonly Family[];
  /** Those to which the routes to its pods lead; undefined: not known. */
  readonly podDevices: ReadonlySet<string> | undefined;
  /** Connections of pods are translated on their way, and keep the pod's address. */
  readonly isTracked: boolean;
  /** Services are in force. Before that, a network plugin may still set what is wrong. */
  readonly isServing: boolean;
}

export function checkMachine(machine: FolderFiles, use: MachineUse): Finding[] {
  if (use.families.length === 0) return [];
  return [
    ...use.families.flatMap((family) => checkForwarding(machine, family, use)),
    ...(use.isTracked ? bridges(machine, use) : []),
  ];
}

/** Whether the node forwards packets of the family; nothing where the kernel does not say. */
function checkForwarding(
  machine: ReadableFiles,
  family: Family,
  { isServing }: Pick<MachineUse, 'isServing'>,
): Finding[] {
  const path = forwardingPaths[family];
  const check = sysctlName(path);
  const actual = machine.read(path);
  if (actual === undefined) return [];
  if (actual !== '0') return [ok(check, `is ${actual}`)];
  const text = 'is 0: the node forwards no packets of pods to endpoints';
  const advice = 'set it to 1, as network plugins do when they start';
  return [isServing ? problem(check, text, advice) : warning(check, text, advice)];
}

/** Why packets of pods are not forwarded to endpoints. */
export function notForwarded(machine: ReadableFiles, family: Family): string[] {
  return checkForwarding(machine, family, { isServing: true })
    .filter(({ level }) => level !== 'ok')
    .map(({ check, text }) => `${check} ${text}`);
}

const links = '/sys/class/net';

function bridges(machine: FolderFiles, use: MachineUse): Finding[] {
  const found = podBridges(machine, use);
  if (found.length === 0) return [];
  const filters = use.families.map((family) => bridgeFilter(machine, family, found, use));
  const isKnown = use.podDevices !== undefined && filters.every(({ level }) => level === 'ok');
  return [...filters, ...(isKnown ? found.flatMap((bridge) => hairpin(machine, bridge)) : [])];
}

/** Where the addresses of pods are not known, all. */
function podBridges(machine: FolderFiles, { podDevices }: MachineUse): string[] {
  const isBridge = (link: string): boolean =>
    machine.read(`${links}/${link}/bridge/bridge_id`) !== undefined;
  return machine.list(links).filter((one) => isBridge(one) && podDevices?.has(one) !== false);
}

const filterOf = { IPv4: 'iptables', IPv6: 'ip6tables' } as const;

/** Answers between pods of a bridge are translated back only if netfilter sees them. */
function bridgeFilter(
  machine: FolderFiles,
  family: Family,
  bridges: readonly string[],
  { isServing }: MachineUse,
): Finding {
  const path = `/proc/sys/net/bridge/bridge-nf-call-${filterOf[family]}`;
  const check = sysctlName(path);
  const actual = machine.read(path);
  const own = `bridge/nf_call_${filterOf[family]}`;
  const without = bridges.filter(
    (bridge) =>
      machine.read(`${links}/${bridge}/${own}`) !== '1' &&
      (!isServing || haveNeighbours(machine, bridge)),
  );
  if (without.length === 0 || (actual !== undefined && actual !== '0')) {
    return ok(check, `is ${actual ?? 'set for each bridge'}`);
  }
  const is = actual === undefined ? 'is not there' : 'is 0';
  const where = without.slice(0, namedMax).join(', ');
  const text = `${is}: a pod gets no answer from an endpoint on the same bridge (${where})`;
  const advice =
    'load br_netfilter and set it to 1, unless pods have routes through the node alone';
  return warning(check, text, advice);
}

/** Whether packets may pass between ports of the bridge. */
function haveNeighbours(machine: FolderFiles, bridge: string): boolean {
  const ports = `${links}/${bridge}/brif`;
  const isOpen = (port: string): boolean => machine.read(`${ports}/${port}/isolated`) !== '1';
  let open = 0;
  return machine.list(ports).some((port) => {
    open += Number(isOpen(port));
    return open === 2;
  });
}

/** The most bridges and ports that are named. */
const namedMax = 5;
/** IFF_PROMISC (linux/if.h): then the node routes back what a bridge does not. */
const isPromiscuous = 0x100;

function hairpin(machine: FolderFiles, bridge: string): Finding[] {
  const ports = portsWithoutHairpin(machine, bridge);
  const flags = Number(machine.read(`${links}/${bridge}/flags`) ?? 0);
  if (ports.length === 0 || (flags & isPromiscuous) !== 0) return [];
  const text = `sends nothing back by the port that it came by (hairpin_mode is 0: ${ports.join(', ')}): pods there do not reach themselves through a Service`;
  const advice = `set hairpinMode of the network plugin, now bridge link set dev ${ports[0]} hairpin on`;
  return [warning(`bridge ${bridge}`, text, advice)];
}

/** The first few ports that send nothing back by the way that it came. */
export function portsWithoutHairpin(machine: FolderFiles, bridge: string): string[] {
  const ports = `${links}/${bridge}/brif`;
  return machine
    .list(ports)
    .filter((port) => machine.read(`${ports}/${port}/hairpin_mode`) === '0')
    .slice(0, namedMax);
}

/** `net.ipv4.ip_forward` of `/proc/sys/net/ipv4/ip_forward`. */
export function sysctlName(path: string): string {
  return path.replace(/^\/proc\/sys\//, '').replaceAll('/', '.');
}
