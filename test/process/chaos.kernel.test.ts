import { killCase, soakCase, stopCase } from './chaos-cases.ts';

killCase('nftables', 6, 150);
killCase('iptables', 6, 40);
soakCase('nftables', 40);
soakCase('iptables', 40);
soakCase('userspace', 40);
stopCase('iptables', 40);
stopCase('userspace', 40);
