import { killCase, soakCase } from './chaos-cases.ts';

killCase('ipvs', 3);
soakCase('ipvs');
