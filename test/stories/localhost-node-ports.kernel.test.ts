/** Node ports on loopback addresses, in the modes that every kernel has. */

import { describe } from 'vitest';
import { MODES_WITHOUT_IPVS } from '../lab/proxy.ts';
import { localhostNodePorts } from './localhost-node-ports.ts';

describe.each(MODES_WITHOUT_IPVS)('mode %s', localhostNodePorts);
