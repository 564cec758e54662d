/** How rules of nf_tables distinguish traffic of this node's pods from other traffic. */
import {
  matchCIDR,
  matchInterface,
  matchInterfacePrefix,
  type Statement,
} from '../kernel/nft/rule.ts';
import type { LocalDetector } from './mode.ts';

/** Matches traffic of this node's pods (`==`) or other traffic (`!=`); none without a detector. */
export function detectLocal(detector: LocalDetector, operator: '==' | '!='): Statement[] {
  switch (detector.kind) {
    case 'none':
      return [];
    case 'cidr':
      return [matchCIDR('saddr', operator, detector.cidr)];
    case 'bridge':
      return [matchInterface(operator, detector.name)];
    case 'interface-prefix':
      return [matchInterfacePrefix(operator, detector.prefix)];
    default:
      return unreachable(detector);
  }
}

/** For the case that closes a switch over a union. */
export function unreachable(value: never): never {
  throw new Error(`unexpected value ${JSON.stringify(value)}`);
}
