/** Ops about links and addresses as text: in the words of ip. */
import { NFPROTO } from '../../src/kernel/nft/constants.ts';
import { type RecordOf, readRecords } from '../../src/kernel/records.ts';
import { routeOps } from '../../src/kernel/route-ops.ts';
import { formatAddress } from '../../src/net/address.ts';

export type RouteOp = RecordOf<typeof routeOps>;

/** One command a line, in the order of the ops. */
export function routeScript(ops: Uint8Array): string {
  const lines = [...readRecords(routeOps, ops)].flatMap(routeCommands);
  return lines.map((line) => `${line}\n`).join('');
}

export function routeCommands(op: RouteOp): string[] {
  switch (op.kind) {
    case 'linkAdd':
      return [`ip link add ${op.link} type ${op.type}`];
    case 'linkDelete':
      return [`ip link delete ${op.link}`];
    case 'addressesAdd':
    case 'addressesDelete': {
      const length = op.family === NFPROTO.IPv4 ? 4 : 16;
      const verb = op.kind === 'addressesAdd' ? 'add' : 'delete';
      return Array.from({ length: op.addresses.length / length }, (_, i) => {
        const address = formatAddress(op.addresses.subarray(i * length, (i + 1) * length));
        return `ip address ${verb} ${address}/${op.prefixLength} dev ${op.link}`;
      });
    }
  }
}
