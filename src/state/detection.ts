/** What becomes of endpoints that do not answer, as a Service asks for it. */
import type { Family } from '../net/address.ts';
import type { EndpointKey } from '../net/endpoint-list.ts';
import type { Protocol } from '../net/protocol.ts';

/**
 * - `off`: nothing is counted;
 * - `observe`: attempts and answers of each endpoint are counted and shown;
 * - `eject`: an endpoint that answers nothing gets no new connections until it answers again.
 */
export const detectionModes = ['off', 'observe', 'eject'] as const;
export type DetectionMode = (typeof detectionModes)[number];

/**
 * What the operator says. `off`: for all Services, whatever they ask for. `by-annotation`: only for
 * Services that ask for a mode. The others are for all Services that do not ask.
 */
export const configuredDetections = ['off', 'by-annotation', 'observe', 'eject'] as const;
export type ConfiguredDetection = (typeof configuredDetections)[number];

export interface Detection {
  /** Undefined: the configuration says. It has no effect where that is `off`. */
  readonly mode: DetectionMode | undefined;
  /** The node tries a connection to each endpoint once a second. */
  readonly probes: boolean;
}

/** What is known of endpoints that do not answer. */
export interface EndpointHealth {
  /** False: all endpoints have all of their share. */
  readonly isAny: boolean;
  /** The most endpoints of a pool that get no connections for it, in percent. */
  readonly maxEjected: number;
  /**
   * The endpoints of a Forwarding that do not have their whole share, and the part that each has;
   * 0: it gets no new connections. Undefined: all have their whole share.
   */
  parts(family: Family, forwarding: string): ReadonlyMap<EndpointKey, number> | undefined;
  /** Services (`namespace/name`) with such endpoints. */
  services(): Iterable<string>;
}

/** The most endpoints of a pool that get no connections because they do not answer: never all. */
export function mostEjected(endpoints: number, percent: number): number {
  return Math.max(0, Math.min(Math.floor((endpoints * percent) / 100), endpoints - 1));
}

/** An endpoint was left out, or came back. */
export type EndpointChange =
  | {
      readonly kind: 'ejected';
      /** Attempts in a row that were not answered. */
      readonly unanswered: number;
    }
  | {
      readonly kind: 'returned';
      readonly outMs: number;
      /**
       * `trial`: it has not answered, and clients try it again. `exempt`: it can no longer be
       * taken for a pod (`EndpointAnswers.exempt`).
       */
      readonly because: 'answer' | 'trial' | 'exempt';
    };

/** What happened to an endpoint of a Service port. */
export interface EndpointEvent {
  /** `namespace/name` */
  readonly service: string;
  readonly family: Family;
  /** Name of the port. */
  readonly port: string;
  readonly protocol: Protocol;
  /** `10.244.0.5:8080` */
  readonly endpoint: string;
  readonly change: EndpointChange;
}

/** How packets are counted. */
export type DetectionState =
  | { readonly kind: 'off' }
  | { readonly kind: 'counting' }
  /** Only probes show what answers. */
  | { readonly kind: 'unavailable'; readonly because: string };

/** What is known of one endpoint. */
export interface EndpointAnswers {
  /** What was sent to it since it is followed: connections of TCP, datagrams of UDP. */
  readonly attempts: number;
  readonly answers: number;
  readonly resets: number;
  /** It answers no connections. */
  readonly isSilent: boolean;
  /** How long it has had no new connections; undefined: it gets them. */
  readonly outMs: number | undefined;
  /** Why it is neither probed nor left out; undefined: it may be. */
  readonly exempt: string | undefined;
}

/** Connections that were tried: those that are over. */
export interface ProbeResults {
  readonly succeeded: number;
  readonly failed: number;
  /** This node could not: it lacked descriptors, memory or ports, or was not allowed to. */
  readonly notTried: number;
}

/** Of all Services together. */
export interface DetectionTotals {
  readonly services: number;
  /** Endpoints of Service ports that are followed, and those that are not: there are too many. */
  readonly endpoints: number;
  readonly leftOut: number;
  /** Endpoints without new connections, and others that answer nothing. */
  readonly out: number;
  readonly silent: number;
  /** How often an endpoint was left out, and came back. */
  readonly ejected: number;
  readonly returned: number;
  readonly probes: ProbeResults;
}

/** What answers and metrics show. */
export interface DetectionView {
  readonly state: DetectionState;
  readonly totals: DetectionTotals;
  /** What is asked for a Service. */
  modeOf(service: { readonly detection?: Detection | undefined }): DetectionMode;
  /** What is known of an endpoint of a Forwarding; undefined: it is not followed. */
  answersOf(family: Family, forwarding: string, key: EndpointKey): EndpointAnswers | undefined;
  /** Endpoints of a Forwarding that answer no connections, as text. */
  silentIn(family: Family, forwarding: string): readonly string[];
  /** Endpoints of a Forwarding that are not followed, because there are too many. */
  leftOutOf(family: Family, forwarding: string): number;
}
