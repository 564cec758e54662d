/** Limits of connections, in the modes that every kernel has. */
import { describe } from 'vitest';
import { MODES_WITHOUT_IPVS } from '../lab/proxy.ts';
import { limitsIn, limitsOfUDP, shareLab } from './connection-limits.ts';

shareLab();
describe.each(MODES_WITHOUT_IPVS)('in mode %s', limitsIn);
limitsOfUDP();
