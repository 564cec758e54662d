/** Stories with connect-time translation, in modes that every kernel has. */

import { describe } from 'vitest';
import { MODES_WITHOUT_IPVS } from '../lab/proxy.ts';
import { connectTimeStories } from './connect-time-stories.ts';

describe.each(MODES_WITHOUT_IPVS)('with mode %s', connectTimeStories);
