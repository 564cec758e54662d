/**
 * The rows of the list of Services. A row lasts while it says the same: of the hundreds that an
 * answer has, few change until the next one.
 */
import { lasts } from '../../ask/lasting.ts';
import type { ServiceList } from '../../ask/service.ts';
import { type Address, formatAddress } from '../../net/address.ts';
import { forwardingKeys, type Service } from '../../state/types.ts';

export type ServiceRow = ServiceList['items'][number];

/** What changes without the Service. */
type Changing = Pick<ServiceRow, 'endpoints' | 'used' | 'state' | 'reasons'>;

interface Known {
  /** The record that the keys and the row are of. */
  readonly service: Service;
  readonly keys: readonly string[];
  row: ServiceRow | undefined;
}

/** As many as the largest answer has. */
export const rowsMax = 1000;
const portsMax = 100;

export class ServiceRows {
  /** By the key of the Service, the oldest first. */
  readonly #known = new Map<string, Known>();

  /** See `forwardingKeys`. */
  keysOf(service: Service): readonly string[] {
    return this.#of(service).keys;
  }

  row(service: Service, changing: Changing): ServiceRow {
    const known = this.#of(service);
    if (known.row === undefined || !isSame(known.row, changing)) {
      known.row = lasts({ ...(known.row ?? rowOf(service)), ...changing });
    }
    return known.row;
  }

  #of(service: Service): Known {
    const found = this.#known.get(service.key);
    if (found?.service === service) return found;
    const known = { service, keys: forwardingKeys(service), row: undefined };
    this.#known.delete(service.key);
    this.#known.set(service.key, known);
    if (this.#known.size > rowsMax) this.#known.delete(this.#known.keys().next().value!);
    return known;
  }
}

function isSame(row: Changing, { endpoints, reasons, state, used }: Changing): boolean {
  if (row.endpoints !== endpoints || row.used !== used || row.state !== state) return false;
  return row.reasons.join() === reasons.join();
}

/** What all answers have of a Service. */
export function headOf(service: Service) {
  return {
    namespace: service.namespace,
    name: service.name,
    type: service.type,
    clusterIPs: texts(service.clusterIPs),
    ...(service.createdMs > 0 && { created: new Date(service.createdMs).toISOString() }),
    internalTrafficPolicy: service.internalTrafficPolicy,
    externalTrafficPolicy: service.externalTrafficPolicy,
    ...(service.affinityTimeoutSeconds > 0 && { affinitySeconds: service.affinityTimeoutSeconds }),
  };
}

/** What a change of its endpoints does not change. */
function rowOf(service: Service) {
  const { externalIPs, loadBalancerIPs } = service;
  return {
    ...headOf(service),
    externalIPs: texts(
      [...loadBalancerIPs.slice(0, portsMax), ...externalIPs.slice(0, portsMax)].slice(0, portsMax),
    ),
    ports: service.ports.slice(0, portsMax).map(({ name, nodePort, port, protocol }) => {
      return { name, protocol, port, ...(nodePort === 0 ? {} : { nodePort }) };
    }),
  };
}

function texts(addresses: readonly Address[]): string[] {
  return addresses.map(({ bytes }) => formatAddress(bytes));
}
