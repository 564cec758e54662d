/** What IPVS has counted itself, by virtual service and real server, and what rules refused. */
import type { Kernel, KernelReader } from '../../kernel/kernel.ts';
import { NFPROTO, protocolOf } from '../../kernel/nft/constants.ts';
import { readEntries } from '../../kernel/nft/entries.ts';
import { dumpShape, fieldsOfSet } from '../../kernel/nft/sets.ts';
import type { Reply, Request } from '../../kernel/ops.ts';
import { Address, type Family, formatEndpoint } from '../../net/address.ts';
import type { Destination } from '../../state/frontends-in-force.ts';
import type { Pause } from '../../time/pacer.ts';
import { binary, destinationKey } from '../elements.ts';
import { readCountings, refusalCountings } from '../nft-table/traffic.ts';
import type { Count, CountTaker } from '../traffic-counts.ts';
import { setDefinitions, tableLayout, tableName } from './layout.ts';

const noBytes = new Uint8Array(0);

/** Only virtual services that our table records. Rejects with KernelError. */
export async function readTraffic(
  kernel: Kernel,
  family: Family,
  pause: Pause,
  report: CountTaker,
): Promise<void> {
  const ours = await ourKeys(kernel, family);
  const all = { family: NFPROTO[family], protocol: 0, address: noBytes, port: 0 } as const;
  const requests: readonly Request[] = [
    { kind: 'virtualServicesDump', family: NFPROTO[family] },
    { kind: 'destinationsDump', ...all },
  ];
  for (const request of requests) {
    await kernel.dump(request, (record) => {
      const count = countOf(record, ours);
      if (count !== undefined) report(count);
    });
  }
  await readCountings(kernel, tableLayout(family, true), refusalCountings, pause, report);
}

async function ourKeys(kernel: KernelReader, family: Family): Promise<ReadonlySet<string>> {
  const { services } = setDefinitions(family);
  const {
    family: number,
    table,
    set,
    keyLength,
    dataLength,
  } = fieldsOfSet(family, tableName, services);
  const layout = { shape: dumpShape(services), keyLength, dataLength };
  const request = { kind: 'elementsDump', family: number, table, set, ...layout } as const;
  const keys = new Set<string>();
  for (const record of (await kernel.dump(request)).records) {
    if (record.kind !== 'elements') continue;
    for (const { key } of readEntries(record)) keys.add(binary(key));
  }
  return keys;
}

/** Undefined for what is not ours, or has had no connection. */
function countOf(record: Reply, ours: ReadonlySet<string>): Count | undefined {
  if (record.kind !== 'virtualService' && record.kind !== 'destination') return undefined;
  const { connections: count, port } = record;
  const address = Address.from(record.address);
  const key = binary(destinationKey(address, record.protocol, port));
  if (count === 0 || !ours.has(key)) return undefined;
  const destination: Destination = { address, port, protocol: protocolOf(record.protocol) };
  if (record.kind === 'virtualService') {
    return { id: `service ${key}`, count, destination, of: { kind: 'connections' } };
  }
  const endpoint = formatEndpoint(record.destination, record.destinationPort);
  return { id: `${endpoint} ${key}`, count, destination, of: { kind: 'endpoint', endpoint } };
}
