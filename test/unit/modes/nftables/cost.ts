/**
 * What the objects of a Service make in mode nftables, and about how much memory that takes:
 * `npm run bench -- cost` measures it.
 */
import { serviceLimitDefaults } from '../../../../src/config/settings/traffic.ts';
import { isNamedSet } from '../../../../src/modes/nft-table/objects.ts';
import { ChainClasses } from '../../../../src/modes/nftables/chain-classes.ts';
import {
  commentOf,
  frontendElements,
  objectsOfFrontend,
  verdictKinds,
  verdictParts,
} from '../../../../src/modes/nftables/frontends.ts';
import { families } from '../../../../src/net/address.ts';
import { decodeChange, decodeContext } from '../../../../src/source/decode.ts';
import { resolve } from '../../../../src/state/resolve.ts';
import type { EndpointSlice } from '../../../../src/state/types.ts';
import { type CostlyObjects, nodeName } from '../../../fake/costly-objects.ts';
import { context } from '../../state/build.ts';
import { config } from '../config.ts';

const limits = { ...serviceLimitDefaults, frontendEndpoints: 10_000 };

/** Bytes of the kernel's memory, as measured on Linux 6.18. */
const kernelBytes = {
  IPv4: 90,
  IPv6: 125,
  verdict: 115,
  chain: 700,
  set: 2600,
  range: 75,
} as const;
/** Bytes of the heap. */
const heapBytes = { forwarding: 900, frontend: 250, slot: 6 } as const;

export interface Cost {
  readonly elements: number;
  readonly kernelBytes: number;
  readonly heapBytes: number;
}

export function costOf({ service, slices }: CostlyObjects): Cost {
  const decoding = decodeContext(nodeName);
  const change = decodeChange('services', service, decoding).change;
  if (change?.kind !== 'service') throw new Error('the Service was not decoded');
  const records = slices.map((raw): EndpointSlice => {
    const found = decodeChange('endpointslices', raw, decoding).change;
    if (found?.kind !== 'slice') throw new Error('the EndpointSlice was not decoded');
    return found.slice;
  });
  const forwardings = resolve(change.service, records, {
    ...context,
    limits,
    open: () => new Map(),
  });
  const cost = { elements: 0, kernelBytes: 0, heapBytes: 0 };
  for (const family of families) {
    const classes = new ChainClasses({ ...config, family });
    const named = new Set<string>();
    for (const one of forwardings) {
      if (one.family !== family) continue;
      const slots = (one.deal?.cluster.length ?? 0) + (one.deal?.local.length ?? 0);
      cost.heapBytes += heapBytes.forwarding + heapBytes.slot * slots;
      for (const frontend of frontendElements(classes, one)) {
        const endpoints = frontend.endpoints.length + frontend.local.length;
        const parts = verdictParts.filter((part) => verdictKinds[part].of(frontend) !== undefined);
        cost.elements += endpoints + parts.length;
        cost.heapBytes += heapBytes.frontend;
        cost.kernelBytes += endpoints * kernelBytes[family];
        for (const part of parts) {
          cost.kernelBytes += kernelBytes.verdict + commentOf(frontend, part).length;
        }
        for (const object of objectsOfFrontend(frontend)) {
          const name = isNamedSet(object) ? `set ${object.definition.name}` : object.name;
          if (named.has(name)) continue;
          named.add(name);
          cost.kernelBytes += isNamedSet(object) ? kernelBytes.set : kernelBytes.chain;
          const ranges = isNamedSet(object) ? (object.elements?.count ?? 0) : 0;
          cost.elements += ranges;
          cost.kernelBytes += ranges * kernelBytes.range;
        }
      }
    }
  }
  return cost;
}
