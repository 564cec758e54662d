/** Node ports on loopback addresses, in the modes that every kernel has. */
import { describe } from 'vitest';
import { localhostNodePorts } from './localhost-node-ports.ts';

describe.each(['nftables', 'iptables', 'userspace'] as const)('mode %s', localhostNodePorts);
