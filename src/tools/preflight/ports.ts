/** Checks for ports that other programs listen on. */
import type { Config } from '../../config/config.ts';
import { type Finding, ok, warning } from '../../host/finding.ts';
import { hexOf, listenersIn, type TCPSocket } from '../../host/tcp-sockets.ts';
import { formatEndpoint } from '../../net/address.ts';
import type { HostPort } from '../../net/host-port.ts';
import type { Machine } from './machine.ts';

/** This program gives up its ports when Fairlead takes its place. */
const predecessor = 'kube-proxy';
/** The default of the API server's --service-node-port-range. */
const nodePorts = { first: 30_000, last: 32_767 };

export function checkPorts(
  config: Pick<
    Config,
    'healthzBindAddress' | 'metricsBindAddress' | 'readBindAddress' | 'bindAddressHardFail'
  >,
  machine: Machine,
): Finding[] {
  const listeners = listenersIn(machine);
  const ownerOf = ownersIn(machine);
  const { healthzBindAddress, metricsBindAddress, readBindAddress } = config;
  const addresses = [healthzBindAddress, metricsBindAddress, readBindAddress];
  const own = addresses.flatMap((at) =>
    at === undefined ? [] : [checkPort(at, listeners, ownerOf)],
  );
  const taken = listeners.flatMap(({ port, inode }) => {
    if (port < nodePorts.first || port > nodePorts.last) return [];
    const owner = ownerOf(inode);
    return isPredecessor(owner) ? [] : [`${port} by ${owner}`];
  });
  if (taken.length === 0) return [...own, ok('node ports', 'no process listens on one')];
  const text = `in use: ${[...new Set(taken)].join(', ')}`;
  const advice =
    'a Service with such a node port takes its connections: let the program listen elsewhere, or ' +
    'limit nodePortAddresses';
  return [...own, warning('node ports', text, advice)];
}

function checkPort(at: HostPort, listeners: readonly TCPSocket[], ownerOf: OwnerOf): Finding {
  const check = `port ${at.port}`;
  const taker = listeners.find((one) => one.port === at.port && overlaps(one.address, at));
  if (taker === undefined) return ok(check, `${formatEndpoint(at.address.bytes, at.port)} is free`);
  const owner = ownerOf(taker.inode);
  const text = `${formatEndpoint(at.address.bytes, at.port)} is taken by ${owner}`;
  if (isPredecessor(owner)) return ok(check, `${text}, until that stops`);
  return warning(check, text, 'stop that program, or choose another address');
}

function isPredecessor(owner: string): boolean {
  return owner.startsWith(`${predecessor} `);
}

/** Whether sockets at both addresses can't have the same port. */
function overlaps(address: string, { address: { family, bytes } }: HostPort): boolean {
  const isAny = /^0+$/.test(address) || bytes.every((byte) => byte === 0);
  if (isAny) return true;
  return address === hexOf(bytes) && (address.length === 8) === (family === 'IPv4');
}

/** Names a process by a socket that it has: `kube-proxy (process 4711)`. */
type OwnerOf = (inode: string) => string;

/** As far as /proc shows processes, which is asked once. */
function ownersIn(machine: Machine): OwnerOf {
  let owners: ReadonlyMap<string, string> | undefined;
  return (inode) => {
    owners ??= readOwners(machine);
    return owners.get(inode) ?? 'a process that /proc does not show';
  };
}

function readOwners(machine: Machine): Map<string, string> {
  const owners = new Map<string, string>();
  for (const pid of machine.list('/proc')) {
    if (!/^\d+$/.test(pid)) continue;
    for (const fd of machine.list(`/proc/${pid}/fd`)) {
      const inode = /^socket:\[(\d+)\]$/.exec(machine.link(`/proc/${pid}/fd/${fd}`) ?? '')?.[1];
      if (inode !== undefined) owners.set(inode, `${nameOf(machine, pid)} (process ${pid})`);
    }
  }
  return owners;
}

function nameOf(machine: Machine, pid: string): string {
  return machine.read(`/proc/${pid}/comm`) ?? 'a process that has ended';
}
