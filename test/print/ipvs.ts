/** A batch as text: in the words of nft, ipvsadm and ip. */
import { IP_VS_SVC_F, ipvsOps } from '../../src/kernel/ipvs-ops.ts';
import { NFPROTO } from '../../src/kernel/nft/constants.ts';
import { protocolName } from '../../src/kernel/nft/print-value.ts';
import { nftOps } from '../../src/kernel/ops.ts';
import { type RecordOf, readRecords } from '../../src/kernel/records.ts';
import { routeOps } from '../../src/kernel/route-ops.ts';
import { type SetName, setDefinitions } from '../../src/modes/ipvs/layout.ts';
import { sourceRangesTypes } from '../../src/modes/nft-table/source-ranges.ts';
import { formatAddress } from '../../src/net/address.ts';
import { printOp, type SetTypes } from './nft.ts';
import { routeCommands } from './route.ts';

const definitions = { IPv4: setDefinitions('IPv4'), IPv6: setDefinitions('IPv6') };

/** All that this mode writes. */
const modeOps = { ...nftOps, ...ipvsOps, ...routeOps } as const;

/** One command a line, in the order of the ops. */
export function ipvsScript(ops: Uint8Array): string {
  const lines: string[] = [];
  for (const op of readRecords(modeOps, ops)) lines.push(...commandsOf(op));
  return lines.map((line) => `${line}\n`).join('');
}

function commandsOf(op: RecordOf<typeof modeOps>): string[] {
  switch (op.kind) {
    case 'virtualServiceAdd':
    case 'virtualServiceSet': {
      const persistent = (op.flags & IP_VS_SVC_F.PERSISTENT) !== 0;
      const persistence = persistent ? ` -p ${op.timeoutSeconds}` : '';
      const verb = op.kind === 'virtualServiceAdd' ? '-A' : '-E';
      return [`ipvsadm ${verb} ${serviceOf(op)} -s ${op.scheduler}${persistence}`];
    }
    case 'virtualServiceDelete':
      return [`ipvsadm -D ${serviceOf(op)}`];
    case 'destinationAdd':
    case 'destinationSet': {
      const verb = op.kind === 'destinationAdd' ? '-a' : '-e';
      return [`ipvsadm ${verb} ${serviceOf(op)} ${serverOf(op)} -m -w ${op.weight}`];
    }
    case 'destinationDelete':
      return [`ipvsadm -d ${serviceOf(op)} ${serverOf(op)}`];
    case 'ipvsTimeoutsSet':
      return [`ipvsadm --set ${op.tcpSeconds} ${op.tcpFinSeconds} ${op.udpSeconds}`];
    case 'linkAdd':
    case 'linkDelete':
    case 'addressesAdd':
    case 'addressesDelete':
      return routeCommands(op);
    default:
      return [printOp(op, typesOf)];
  }
}

function typesOf(number: number, set: string): SetTypes {
  const family = number === NFPROTO.IPv4 ? 'IPv4' : 'IPv6';
  return sourceRangesTypes(family, set) ?? definitions[family][set as SetName];
}

const protocolFlags: Readonly<Record<string, string>> = {
  tcp: '-t',
  udp: '-u',
  sctp: '--sctp-service',
};

function serviceOf(op: { protocol: number; address: Uint8Array; port: number }): string {
  const flag = protocolFlags[protocolName(op.protocol)];
  return `${flag} ${endpointText(op.address, op.port)}`;
}

function serverOf(op: { destination: Uint8Array; destinationPort: number }): string {
  return `-r ${endpointText(op.destination, op.destinationPort)}`;
}

function endpointText(bytes: Uint8Array, port: number): string {
  const address = formatAddress(bytes);
  return bytes.length === 4 ? `${address}:${port}` : `[${address}]:${port}`;
}
