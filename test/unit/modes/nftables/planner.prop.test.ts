import { nftablesMode } from '../../../../src/modes/nftables/mode.ts';
import { describePlanner } from '../planner-laws.ts';
import type { Subject } from './life.ts';
import { meddle, meddlings } from './meddler.ts';

const subject: Subject = { mode: nftablesMode, meaning: (kernel) => kernel.ruleset() };

describePlanner('NFTablesPlanner', subject, { meddle, meddlings });
