import { iptablesMode } from '../../../../src/modes/iptables/mode.ts';
import { describePlanner } from '../planner-laws.ts';
import { meddle, meddlings } from './meddler.ts';
import { meaning } from './save.ts';

describePlanner('IptablesPlanner', { mode: iptablesMode(), meaning }, { meddle, meddlings });
