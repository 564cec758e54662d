/** What a mode writes as text: what people and golden files read. */
import { NFPROTO } from '../../src/kernel/nft/constants.ts';
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

/** The ops of a batch, one command a line. */
export function scriptOf(mode: ModeName, ops: Uint8Array): string {
  return printers[mode](ops);
}
