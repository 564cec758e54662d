/** What a mode writes as text: what people and golden files read. */
import { bpfOps } from '../../src/kernel/bpf-ops.ts';
import { NFPROTO } from '../../src/kernel/nft/constants.ts';
import { readRecords } from '../../src/kernel/records.ts';
import type { ModeName } from '../../src/modes/mode.ts';
import { sourceRangesTypes } from '../../src/modes/nft-table/source-ranges.ts';
import { affinityTypes } from '../../src/modes/nftables/affinity-objects.ts';
import { type SetName, setDefinitions } from '../../src/modes/nftables/layout.ts';
import { printXtOps } from './iptables.ts';
import { ipvsScript } from './ipvs.ts';
import { printOps, type SetTypes } from './nft.ts';
import { routeScript } from './route.ts';

const definitions = { IPv4: setDefinitions('IPv4'), IPv6: setDefinitions('IPv6') };

function typesOf(number: number, set: string): SetTypes {
  const family = number === NFPROTO.IPv4 ? 'IPv4' : 'IPv6';
  return (
    sourceRangesTypes(family, set) ??
    affinityTypes(family, set) ??
    definitions[family][set as SetName]
  );
}

const printers: Readonly<Record<ModeName, (ops: Uint8Array) => string>> = {
  nftables: (ops) => printOps(ops, typesOf),
  ipvs: ipvsScript,
  iptables: printXtOps,
  userspace: routeScript,
};

/** The ops of a batch, one command a line. Those of connect-time translation come last, by name. */
export function scriptOf(mode: ModeName, ops: Uint8Array): string {
  const [rules, others] = withoutBpf(ops);
  return [printers[mode](rules), ...others].join('\n');
}

/** The ops before the first one that is about programs of bpf, and the names of the others. */
function withoutBpf(ops: Uint8Array): [Uint8Array, string[]] {
  const view = new DataView(ops.buffer, ops.byteOffset, ops.length);
  const codes = new Map(Object.entries(bpfOps).map(([kind, { code }]) => [code as number, kind]));
  let at = 0;
  while (at < ops.length && !codes.has(view.getUint32(at, true))) {
    at += 8 + view.getUint32(at + 4, true);
  }
  const others = [...readRecords(bpfOps, ops.subarray(at))].map(({ kind }) => kind);
  return [ops.subarray(0, at), others];
}
