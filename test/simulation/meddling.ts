/** Other programs that change a part of what is ours in the kernel. */
import { NFPROTO } from '../../src/kernel/nft/constants.ts';
import { kernelOps } from '../../src/kernel/ops.ts';
import { RecordWriter } from '../../src/kernel/records.ts';
import { tableName } from '../../src/modes/nftables/layout.ts';
import type { Family } from '../../src/net/address.ts';
import { linkName, nftablesTable } from '../../src/takeover/names.ts';
import type { Random } from '../chaos/random.ts';
import type { FakeKernel } from '../fake/kernel.ts';
import * as iptables from '../unit/modes/iptables/meddler.ts';
import * as nftables from '../unit/modes/nftables/meddler.ts';
import { sep, svc, write } from '../unit/takeover/rules.ts';

/** Changes something at random, if the kernel lets it. */
export function meddle(kernel: FakeKernel, random: Random): void {
  const family = random.pick<Family>(['IPv4', 'IPv6']);
  const how = { which: random.below(10_000), how: random.below(10_000) };
  const hasTable = kernel.table(NFPROTO[family], tableName) !== undefined;
  if (random.below(8) === 0) startKubeProxy(kernel, family, random);
  else if (hasTable) nftables.meddle(kernel, family, { deed: random.pick(nftables.deeds), ...how });
  else if (kernel.ipvs.present && kernel.ipvs.text() !== '') meddleWithIpvs(kernel, random);
  else iptables.meddle(kernel, family, { deed: random.pick(iptables.deeds), ...how });
}

/** A kube-proxy starts: what its mode ipvs has goes, and its own table, or chains, come. */
function startKubeProxy(kernel: FakeKernel, family: Family, random: Random): void {
  const writer = new RecordWriter(kernelOps);
  for (const one of virtualServicesOf(kernel)) writer.write('virtualServiceDelete', one);
  if (kernel.links.texts(linkName) !== undefined) writer.write('linkDelete', { link: linkName });
  kernel.foreign(writer.finish());
  const [table, rules] = random.pick([
    [nftablesTable, { services: [''] }],
    ['nat', { 'KUBE-SERVICES': [svc], [svc]: [sep], [sep]: [''] }],
  ] as const);
  write(kernel, table, rules, NFPROTO[family]);
}

function virtualServicesOf({ ipvs }: FakeKernel) {
  return ipvs
    .answer({ kind: 'virtualServicesDump', family: 0 })
    .filter((one) => one.kind === 'virtualService');
}

/** A virtual service, a real server or a bound address goes, or is changed. */
function meddleWithIpvs(kernel: FakeKernel, random: Random): void {
  const writer = new RecordWriter(kernelOps);
  const { ipvs, links } = kernel;
  const services = virtualServicesOf(kernel);
  const servers = ipvs
    .answer({
      kind: 'destinationsDump',
      family: 0,
      protocol: 0,
      address: new Uint8Array(),
      port: 0,
    })
    .filter((one) => one.kind === 'destination');
  const addresses = links
    .answer({ kind: 'addressesDump', family: 0, link: linkName })
    .filter((one) => one.kind === 'address');
  const [service, server] = [random.pick(services), servers[random.below(servers.length + 1)]];
  switch (random.below(5)) {
    case 0:
      writer.write('virtualServiceDelete', service);
      break;
    case 1:
      writer.write('virtualServiceSet', { ...service, scheduler: 'sh' });
      break;
    case 2:
      if (server !== undefined) writer.write('destinationDelete', server);
      break;
    case 3:
      if (server !== undefined) writer.write('destinationSet', { ...server, weight: 7 });
      break;
    default: {
      const bound = addresses[random.below(addresses.length + 1)];
      if (bound === undefined) break;
      const { address, family, index, prefixLength } = bound;
      const at = { family, link: '', index, prefixLength, flags: 0, addresses: address };
      writer.write('addressesDelete', at);
    }
  }
  kernel.foreign(writer.finish());
}
