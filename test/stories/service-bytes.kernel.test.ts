/** Bytes of Services, in the modes that every kernel has. */
import { bytesIn } from './service-bytes.ts';

bytesIn('nftables', 'iptables');
