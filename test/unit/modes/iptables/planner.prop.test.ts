import { iptablesMode, likeIptables } from '../../../../src/modes/iptables/mode.ts';
import { nftablesMode } from '../../../../src/modes/nftables/mode.ts';
import { describePlanner } from '../planner-laws.ts';
import { meddle, meddlings } from './meddler.ts';
import { meaning } from './save.ts';

describePlanner('IptablesPlanner', { mode: iptablesMode(), meaning }, { meddle, meddlings });

const empty = likeIptables(nftablesMode);
const mode = { ...empty, name: 'iptables', planner: empty.filterPlanner! } as const;
describePlanner('its planner of table filter alone', { mode, meaning }, { meddle, meddlings });
