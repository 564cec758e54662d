/** Stories with connect-time translation, in modes that every kernel has. */
import { describe } from 'vitest';
import { connectTimeStories } from './connect-time-stories.ts';

describe.each(['nftables', 'iptables', 'userspace'] as const)('beside mode %s', connectTimeStories);
