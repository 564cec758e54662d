/** Limits of connections in mode ipvs. */
import { limitsIn, shareLab } from './connection-limits.ts';

shareLab();
limitsIn('ipvs');
