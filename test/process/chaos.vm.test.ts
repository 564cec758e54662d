import { killCase } from './chaos-cases.ts';

// Emulated, the program as it is built starts in a fraction of the time, and V8 does not crash: see
// test/vm/guest-command.ts.
killCase('ipvs', 1, 12, 'built');
