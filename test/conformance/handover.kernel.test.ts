import { tellHandovers } from './handover.ts';

tellHandovers('nftables', 'iptables');
