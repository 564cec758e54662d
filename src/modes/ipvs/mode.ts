import { applyAll } from '../../kernel/failures.ts';
import type { Kernel, KernelReader } from '../../kernel/kernel.ts';
import { IPPROTO, NFPROTO } from '../../kernel/nft/constants.ts';
import { findTable } from '../../kernel/nft/find-table.ts';
import { familyWord } from '../../kernel/nft/words.ts';
import { kernelOps } from '../../kernel/ops.ts';
import { RecordWriter } from '../../kernel/records.ts';
import { atOneGeneration } from '../../kernel/steady.ts';
import { families, formatAddress } from '../../net/address.ts';
import { noPause } from '../../time/pacer.ts';
import type { OwnedObject } from '../mode.ts';
import { addressFields } from '../own-addresses.ts';
import { ModePlanner } from '../planner.ts';
import type { ProxyMode } from '../proxy-mode.ts';
import type { Sysctl, SysctlWishes } from '../sysctl.ts';
import { IPVSBackend, type IPVSTypes } from './backend.ts';
import { linkName, tableComment, tableLayout, tableName } from './layout.ts';
import { type IPVSObservation, observe } from './observation.ts';
import { dealing, probe } from './probe.ts';
import { readTraffic } from './traffic.ts';

export const ipvsMode: ProxyMode = {
  name: 'ipvs',
  link: linkName,
  table: { name: tableName, comment: tableComment },
  hasGeneration: false,
  translates: true,
  hasKubeProxyNames: false,
  usesIPVS: true,
  ownSettings: 'ipvs',
  metrics: ['restoreFailures', 'ipvsSyncs'],
  trafficCounts: readTraffic,
  sysctls,
  probe,
  dealing,
  planner: (config, environment) =>
    new ModePlanner<IPVSTypes>({
      family: config.family,
      backend: () => new IPVSBackend(config),
      environment,
      bindsAddresses: true,
    }),
  owned,
  cleanup,
  retire,
};

/** Behaviour document 8.1. */
function sysctls({ strictARP, kernel }: SysctlWishes): Sysctl[] {
  const ipv4 = (name: string, value: string, advice: string): Sysctl => {
    const path = `/proc/sys/net/ipv4/${name}`;
    return { path, value, purpose: 'set up IPVS', advice, reportedWhenRight: true };
  };
  const arp = 'strictARP: no other link answers ARP requests for addresses of Services';
  return [
    ipv4('vs/conntrack', '1', 'masquerade needs connection tracking of what IPVS forwards'),
    // Before 5.9, a client that reuses a port would wait for 1 s.
    ...(isBefore(kernel, 5, 9)
      ? [ipv4('vs/conn_reuse_mode', '0', 'this kernel delays clients that reuse a port')]
      : []),
    ipv4('vs/expire_nodest_conn', '1', 'connections to deleted endpoints end immediately'),
    ipv4('vs/expire_quiescent_template', '1', 'session affinity leaves endpoints that drain'),
    ipv4('ip_forward', '1', 'IPVS forwards to endpoints'),
    ...(strictARP
      ? [ipv4('conf/all/arp_ignore', '1', arp), ipv4('conf/all/arp_announce', '2', arp)]
      : []),
  ];
}

function isBefore(kernel: string, major: number, minor: number): boolean {
  const [a = 0, b = 0] = kernel.split('.').map((part) => Number.parseInt(part, 10));
  return a < major || (a === major && b < minor);
}

async function owned(kernel: KernelReader): Promise<OwnedObject[]> {
  const found = await findOurs(kernel);
  const objects = found.flatMap((one) => {
    const services = ourServices(one).length;
    const table = {
      object: `table ${familyWord(NFPROTO[one.family])} ${tableName}`,
      because: `only Fairlead's ipvs mode uses this name`,
    };
    const because = `set services of table ${tableName} names them`;
    const object = `${services} virtual services of ${one.family}`;
    return services === 0 ? [table] : [table, { object, because }];
  });
  if (!found.some(({ link }) => link)) return objects;
  const addresses = found.reduce((sum, one) => sum + one.addresses.size, 0);
  const because = `it is used in addition to the table; it has ${addresses} addresses of Services`;
  return [...objects, { object: `interface ${linkName}`, because }];
}

/** What is ours, in errors. */
const subject = `interface ${linkName}, its virtual services and tables ${tableName}`;

/** Deletes the table last, because it records what of the rest is ours. */
async function cleanup(kernel: Kernel): Promise<void> {
  const found = await findOurs(kernel);
  if (found.length === 0) return;
  const writer = new RecordWriter(kernelOps);
  if (found.some(({ link }) => link)) writer.write('linkDelete', { link: linkName });
  for (const one of found) {
    for (const { address, protocol, port } of ourServices(one)) {
      const service = { protocol: IPPROTO[protocol], address: address.bytes, port };
      writer.write('virtualServiceDelete', { family: NFPROTO[one.family], ...service });
    }
  }
  for (const { family } of found) {
    writer.write('tableDelete', { family: NFPROTO[family], table: tableName });
  }
  await applyAll(kernel, writer.finish(), 'ipvs.cleanup', subject);
}

/**
 * Deleting a virtual service would cut its connections. The sets that refuse, drop and masquerade
 * new connections are emptied immediately, because no process updates them any more.
 */
async function retire(kernel: Kernel): Promise<number> {
  const found = await findOurs(kernel);
  const counts = found.map((one) => {
    const busy = ourServices(one).filter(({ servers }) => servers.connections > 0);
    return {
      one,
      busy,
      connections: busy.reduce((sum, { servers }) => sum + servers.connections, 0),
    };
  });
  const connections = counts.reduce((sum, each) => sum + each.connections, 0);
  if (connections === 0) {
    await cleanup(kernel);
    return 0;
  }
  const writer = new RecordWriter(kernelOps);
  for (const { one } of counts) {
    const family = NFPROTO[one.family];
    for (const set of Object.keys(tableLayout(one.family).sets)) {
      if (set !== 'services') writer.write('setFlush', { family, table: tableName, set });
    }
  }
  for (const { one, busy } of counts) {
    const family = NFPROTO[one.family];
    for (const service of ourServices(one).filter((each) => !busy.includes(each))) {
      const { address, port } = service;
      const protocol = IPPROTO[service.protocol];
      writer.write('virtualServiceDelete', { family, protocol, address: address.bytes, port });
    }
  }
  for (const { one, busy } of counts) {
    const needed = new Set(busy.map(({ address }) => formatAddress(address.bytes)));
    for (const bytes of one.addresses.values()) {
      if (needed.has(formatAddress(bytes))) continue;
      writer.write('addressesDelete', addressFields(one.family, linkName, [bytes]));
    }
  }
  await applyAll(kernel, writer.finish(), 'ipvs.retire', subject);
  return connections;
}

/**
 * Reads each family that has our table. Without the table nothing is ours: kube-proxy has such a
 * link.
 */
async function findOurs(kernel: KernelReader): Promise<IPVSObservation[]> {
  const found: IPVSObservation[] = [];
  for (const family of families) {
    const table = { family: NFPROTO[family], table: tableName };
    if ((await findTable(kernel, table)) === undefined) continue;
    const read = () => observe(kernel, family, {}, noPause);
    found.push(await atOneGeneration(kernel, read));
  }
  return found;
}

/** The virtual services that our table records, also those that were kube-proxy's. */
function ourServices(found: IPVSObservation) {
  return [...found.services.values()].filter((service) => found.isRecorded(service));
}
