/** Reads the target of a question: `10.96.0.1:80/TCP`, `default/web:http`. */
import { counted } from '../../../ask/words.ts';
import { splitTarget } from '../../../config/host-port.ts';
import { type Address, parseAddress } from '../../../net/address.ts';
import type { Protocol } from '../../../net/protocol.ts';
import type { ClusterState } from '../../../state/store.ts';
import type { Service, ServicePort } from '../../../state/types.ts';
import { Refusal } from '../refusal.ts';
import { absence } from '../service.ts';

export interface Target {
  readonly address: Address;
  readonly port: number;
  /** Undefined: the protocol of the frontend at the address and port. */
  readonly protocol: Protocol | undefined;
  /** The Service that was asked for by name. */
  readonly service: Service | undefined;
}

const form = 'ADDRESS:PORT or NAMESPACE/NAME:PORT, and /TCP, /UDP or /SCTP behind it if need be';

/** Throws a Refusal. */
export function readTarget(text: string, state: ClusterState): Target {
  const parts = splitTarget(text);
  if (parts === undefined) throw new Refusal(400, `to "${text}" is not ${form}`);
  const { protocol } = parts;
  const address = parseAddress(parts.host);
  if (address !== undefined) {
    return { address, port: readPort(parts.port), protocol, service: undefined };
  }
  if (!/^[^/]+\/[^/]+$/.test(parts.host)) throw new Refusal(400, `to "${text}" is not ${form}`);
  return targetOf(serviceOf(parts.host, state), parts.port, protocol);
}

function readPort(text: string): number {
  const port = /^\d+$/.test(text) ? Number(text) : 0;
  if (port < 1 || port > 65_535) throw new Refusal(400, `"${text}" is no port: 1 to 65535`);
  return port;
}

function serviceOf(key: string, state: ClusterState): Service {
  const service = state.service(key);
  if (service !== undefined) return service;
  throw new Refusal(404, absence(state, key));
}

function targetOf(service: Service, text: string, protocol: Protocol | undefined): Target {
  const isAsked = (port: ServicePort): boolean =>
    (port.name === text || String(port.port) === text) &&
    (protocol ?? port.protocol) === port.protocol;
  const found = service.ports.find(isAsked);
  if (found === undefined) {
    const has = portsText(service.ports);
    throw new Refusal(404, `Service ${service.key} has no port "${text}": it has ${has}`);
  }
  const [address] = service.clusterIPs;
  return { address: address!, port: found.port, protocol: found.protocol, service };
}

/** The most ports of a Service that a message names. */
const namedMax = 10;

/** `http 80/TCP, dns 53/UDP` */
export function portsText(ports: readonly ServicePort[]): string {
  const named = ports.slice(0, namedMax).map(({ name, port, protocol }) => {
    return `${name === '' ? '' : `${name} `}${port}/${protocol}`;
  });
  const more = ports.length - named.length;
  return `${named.join(', ')}${more > 0 ? ` and ${counted(more, 'other')}` : ''}`;
}
