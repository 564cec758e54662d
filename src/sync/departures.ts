/**
 * Endpoints that have left the EndpointSlices of a Service whose connections are ended: how long
 * ago, and whether their time is over. Time that a restart takes is not known: what left before it
 * stays as it is.
 */
import { EndpointFinder } from '../net/endpoint-finder.ts';
import { type EndpointKey, EndpointList, endpointBytes } from '../net/endpoint-list.ts';
import { type Forwarding, forwardingId, type Service } from '../state/types.ts';
import type { Clock } from '../time/clock.ts';

interface DeparturesOptions {
  readonly clock: Clock;
  /** The time of an endpoint of the Service (`namespace/name`) is over. */
  readonly over: (service: string) => void;
}

/** The most endpoints of a Service that are waited for; of more, the first have less time. */
export const departuresMax = 4096;

interface Departed {
  readonly packed: Uint8Array;
  readonly leftAtMs: number;
}

/** Of one Forwarding. */
interface Port {
  /** What the EndpointSlices had last. */
  readonly listed: EndpointList;
  /** Those that have left, the first one first. */
  readonly left: ReadonlyMap<EndpointKey, Departed>;
}

interface Known {
  readonly ports: ReadonlyMap<string, Port>;
  readonly cancel: () => void;
}

const noPort: Port['left'] = new Map();

export class Departures {
  readonly #options: DeparturesOptions;
  readonly #services = new Map<string, Known>();

  constructor(options: DeparturesOptions) {
    this.#options = options;
  }

  /** Ends all timers. */
  stop(): void {
    for (const { cancel } of this.#services.values()) cancel();
    this.#services.clear();
  }

  /** The Service is gone, or its connections are not ended. */
  forget(service: string): void {
    this.#services.get(service)?.cancel();
    this.#services.delete(service);
  }

  /** The Forwardings, with those that left not long ago among the endpoints that are kept. */
  note({ endings, key }: Service, forwardings: Forwarding[]): Forwarding[] {
    const known = this.#services.get(key);
    const endAfterMs = endings?.endAfterMs;
    if (endAfterMs === undefined) {
      if (known !== undefined) this.forget(key);
      return forwardings;
    }
    const { clock, over } = this.#options;
    const now = clock.now();
    const ports = new Map<string, Port>();
    let room = departuresMax;
    let firstMs = Number.POSITIVE_INFINITY;
    const noted = forwardings.map((forwarding) => {
      const listed = forwarding.endings?.kept;
      if (listed === undefined) return forwarding;
      const id = forwardingId(forwarding.family, forwarding.key);
      const all = departed(known?.ports.get(id), listed, now);
      const due = [...all].filter(([, { leftAtMs }]) => leftAtMs + endAfterMs > now);
      const left = room === 0 ? [] : due.slice(-room);
      room -= left.length;
      ports.set(id, { listed, left: left.length === 0 ? noPort : new Map(left) });
      if (left.length === 0) return forwarding;
      firstMs = Math.min(firstMs, left[0]![1].leftAtMs + endAfterMs);
      const kept = joined(listed, left);
      return { ...forwarding, endings: { ...forwarding.endings, kept } };
    });
    known?.cancel();
    const isAny = firstMs < Number.POSITIVE_INFINITY;
    const cancel = isAny ? clock.after(Math.ceil(firstMs - now), () => over(key)) : () => {};
    this.#services.set(key, { ports, cancel });
    return noted;
  }
}

/** Those that had left, and have not come back, and those that have left since. */
function departed(port: Port | undefined, listed: EndpointList, now: number): Port['left'] {
  if (port === undefined || (port.listed.equals(listed) && port.left.size === 0)) return noPort;
  const here = new EndpointFinder(listed);
  const left = new Map<EndpointKey, Departed>();
  for (const [key, one] of port.left) {
    const alone = EndpointList.from(listed.family, one.packed);
    if (here.indexOf(alone, 0) < 0) left.set(key, one);
  }
  for (let i = 0; i < port.listed.length; i += 1) {
    if (here.indexOf(port.listed, i) >= 0) continue;
    left.set(port.listed.key(i), { packed: port.listed.packed(i), leftAtMs: now });
  }
  return left;
}

function joined(
  listed: EndpointList,
  left: readonly (readonly [EndpointKey, Departed])[],
): EndpointList {
  const stride = endpointBytes[listed.family];
  const own = listed.bytes();
  const bytes = new Uint8Array(own.length + left.length * stride);
  bytes.set(own);
  for (const [i, [, { packed }]] of left.entries()) bytes.set(packed, own.length + i * stride);
  return EndpointList.from(listed.family, bytes);
}
