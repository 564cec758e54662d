import { tellHandovers } from './handover.ts';

tellHandovers('nftables', 'nftables, counted', 'iptables');
