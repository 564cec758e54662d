/** Names of chains, as kube-proxy's iptables mode has them (behaviour document 7.3). */
import { hash } from 'node:crypto';
import { formatServicePortName, type ServicePortName } from '../../state/types.ts';

export type TableName = 'nat' | 'filter' | 'mangle';

/** The chains of one Service port, in table nat. */
export interface ServiceChains {
  /** To the endpoints of policy Cluster. */
  readonly cluster: string;
  /** To the endpoints of policy Local. */
  readonly local: string;
  /** What becomes of traffic from outside the cluster. */
  readonly external: string;
  /** Which clients may use the load balancer's addresses. */
  readonly firewall: string;
}

/** `isRange`: those of its range of ports, which kube-proxy does not know. */
export function serviceChains(id: ServicePortName, isRange = false): ServiceChains {
  const hash = hash16(isRange ? `${hashed(id)} range` : hashed(id));
  return {
    cluster: `KUBE-SVC-${hash}`,
    local: `KUBE-SVL-${hash}`,
    external: `KUBE-EXT-${hash}`,
    firewall: `KUBE-FW-${hash}`,
  };
}

/** The chain of one endpoint, given as `10.0.0.1:80` or `[fd00::1]:80`. */
export function endpointChain(id: ServicePortName, endpoint: string): string {
  return `KUBE-SEP-${hash16(hashed(id) + endpoint)}`;
}

/** Whether a chain of table nat is one of a Service port or of an endpoint. */
export function isServiceChain(name: string): boolean {
  return serviceChain.test(name);
}

/** What the names of such chains begin with. */
export const servicePrefixes = ['KUBE-SVC-', 'KUBE-SVL-', 'KUBE-SEP-', 'KUBE-FW-', 'KUBE-EXT-'];

const serviceChain = new RegExp(`^(?:${servicePrefixes.join('|')})[A-Z2-7]{16}$`);

function hashed(id: ServicePortName): string {
  return formatServicePortName(id) + id.protocol.toLowerCase();
}

const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567';

/** The first 16 characters of the base32 form (RFC 4648) of SHA-256: 80 bits. */
function hash16(text: string): string {
  const digest = hash('sha256', text, 'buffer');
  let name = '';
  for (let at = 0; at < 10; at += 5) {
    // 40 bits at a time are 8 characters.
    let bits = digest.readUIntBE(at, 5);
    let part = '';
    for (let i = 0; i < 8; i += 1) {
      part = alphabet[bits % 32] + part;
      bits = Math.floor(bits / 32);
    }
    name += part;
  }
  return name;
}
