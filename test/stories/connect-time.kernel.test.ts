/** Stories with connect-time translation, in modes that every kernel has. */

import { describe } from 'vitest';
import { MODES_WITHOUT_IPVS } from '../lab/proxy.ts';
import { connectTimeStories } from './connect-time-stories.ts';
import { portRangeStories } from './port-ranges.ts';

describe.each(MODES_WITHOUT_IPVS)('with mode %s', (mode) => connectTimeStories(mode));
describe('ranges of ports', () => connectTimeStories('nftables', portRangeStories));
