/** Reads the target of a question: `10.96.0.1:80/TCP`, `default/web:http`. */
import { portTitle } from '../../../ask/service-words.ts';
import { firstNames } from '../../../ask/words.ts';
import { type Address, parseAddress } from '../../../net/address.ts';
import { splitTarget } from '../../../net/host-port.ts';
import type { List } from '../../../net/list.ts';
import type { Protocol } from '../../../net/protocol.ts';
import type { ClusterState } from '../../../state/store.ts';
import type { Service, ServicePort } from '../../../state/types.ts';
import type { Pacer } from '../../../time/pacer.ts';
import { Refusal } from '../refusal.ts';
import { serviceNamed } from '../service-names.ts';

export interface Target {
  readonly address: Address;
  readonly port: number;
  readonly protocol: Protocol;
  /** The Service, if the question named one. */
  readonly service: Service | undefined;
}

/** The target of a question. */
interface Question extends Omit<Target, 'protocol'> {
  /** The given port, or that of the Service; empty: the question does not name one. */
  readonly protocols: readonly Protocol[];
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
    return { address, port: readPort(port), protocols, service: undefined };
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
  const protocols = found.filter((one) => one.port === port.port).map((one) => one.protocol);
  return { address: address!, port: port.port, protocols, service };
}

export function noSuchPort(key: string, port: string, ports: List<ServicePort>): Refusal {
  return new Refusal(404, `Service ${key} has no port "${port}": it has ${portsText(ports)}`);
}

/** The most ports of a Service that a message names. */
const namedMax = 10;

/** `http 80/TCP, dns 53/UDP` */
export function portsText(ports: List<ServicePort>): string {
  return firstNames(ports.slice(0, namedMax).map(portTitle), ports.length);
}
