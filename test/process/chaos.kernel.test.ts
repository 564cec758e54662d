import { killCase, soakCase } from './chaos-cases.ts';

killCase('nftables', 6);
killCase('iptables', 6);
soakCase('nftables');
soakCase('iptables');
soakCase('userspace');
