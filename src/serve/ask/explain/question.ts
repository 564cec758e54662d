/** Reads the target of a question: `10.96.0.1:80/TCP`, `default/web:http`. */
import { type Address, type Family, parseAddress } from '../../../net/address.ts';
import { splitTarget } from '../../../net/host-port.ts';
import type { Protocol } from '../../../net/protocol.ts';
import type { ClusterState } from '../../../state/store.ts';
import type { Service, ServicePort } from '../../../state/types.ts';
import type { Pacer } from '../../../time/pacer.ts';
import { Refusal } from '../refusal.ts';
import { noSuchPort, serviceNamed } from '../service-names.ts';

export interface Target {
  readonly address: Address;
  readonly port: number;
  readonly protocol: Protocol;
  /** The Service, if the question named one. */
  readonly service: Service | undefined;
}

/** The target of a question. */
export interface Question extends Omit<Target, 'protocol'> {
  /** The given port, or that of the Service; empty: the question does not name one. */
  readonly protocols: readonly Protocol[];
  /** The ports of the Service; empty: the question names an address. */
  readonly ports: readonly ServicePort[];
}

const form = 'ADDRESS:PORT or [NAMESPACE/]NAME:PORT, and /TCP, /UDP or /SCTP behind it if need be';

/** Throws a Refusal. */
export async function readQuestion(
  text: string,
  state: ClusterState,
  pacer: Pacer,
): Promise<Question> {
  const parts = splitTarget(text);
  if (parts === undefined) throw new Refusal(400, `to "${text}" is not ${form}`);
  const { host, port, protocol } = parts;
  const address = parseAddress(host);
  if (address !== undefined) {
    const protocols = protocol === undefined ? [] : [protocol];
    return { address, port: readPort(port), protocols, service: undefined, ports: [] };
  }
  const [, namespace, name] = /^(?:([^/]+)\/)?([^/]+)$/.exec(host) ?? [];
  if (name === undefined) throw new Refusal(400, `to "${text}" is not ${form}`);
  const service = await serviceNamed(state, { name, namespace }, pacer);
  return questionOf(service, port, protocol);
}

function readPort(text: string): number {
  const port = /^\d+$/.test(text) ? Number(text) : 0;
  if (port < 1 || port > 65_535) throw new Refusal(400, `"${text}" is not a port: 1 to 65535`);
  return port;
}

function questionOf(service: Service, text: string, protocol: Protocol | undefined): Question {
  const isAsked = (port: ServicePort): boolean =>
    (port.name === text || String(port.port) === text) &&
    (protocol ?? port.protocol) === port.protocol;
  const found = service.ports.filter(isAsked);
  const [port] = found;
  if (port === undefined) throw noSuchPort(service.key, text, service.ports);
  const [address] = service.clusterIPs;
  const ports = found.filter((one) => one.port === port.port);
  const protocols = ports.map((one) => one.protocol);
  return { address: address!, port: port.port, protocols, service, ports };
}

/** The most frontends that one question is about. */
const externalMax = 10;

/**
 * Where clients outside connect to what the question names: the addresses of load balancers,
 * external IPs, and node ports. `nodeAddress`: one of this node that accepts node ports.
 */
export function externalTargets(
  { ports, service }: Question,
  nodeAddress: (family: Family) => Address | undefined,
): Target[] {
  if (service === undefined) return [];
  const { clusterIPs, externalIPs, loadBalancerIPs } = service;
  const own = clusterIPs.flatMap(({ family }) => nodeAddress(family) ?? []);
  return ports
    .flatMap(({ nodePort, port, protocol }): Target[] => [
      ...[...loadBalancerIPs, ...externalIPs].map((address) => {
        return { address, port, protocol, service };
      }),
      ...(nodePort === 0 ? [] : own).map((address) => {
        return { address, port: nodePort, protocol, service };
      }),
    ])
    .slice(0, externalMax);
}
