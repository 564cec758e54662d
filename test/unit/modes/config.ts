import type { ModeConfig } from '../../../src/modes/mode.ts';
import { cidr } from '../state/build.ts';

/** A cluster whose pods are in 10.244.0.0/16; else nothing is asked for. */
export const config = {
  family: 'IPv4',
  masqueradeAll: false,
  masqueradeMark: 0x4000,
  localDetector: { kind: 'cidr', cidr: cidr('10.244.0.0/16') },
  localhostNodePorts: false,
  asIptables: false,
  dropInvalid: false,
  ownTables: false,
  countsTraffic: false,
} as const satisfies ModeConfig;
