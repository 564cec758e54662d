import { killCase, soakCase } from './chaos-cases.ts';

killCase('ipvs', 3, 12);
soakCase('ipvs', 12);
