/** Node ports on loopback addresses, in mode ipvs. */
import { localhostNodePorts } from './localhost-node-ports.ts';

localhostNodePorts('ipvs');
