/** Notices about Services: conflicts, and what is not served, or not as the Service asks. */
import type { ServicePortName } from '../state/types.ts';

/** Everything that depends on the kind of a notice. docs/logs.md is made from it, too. */
export interface NoticeRow {
  /** Of the log line; default: warn. */
  readonly level?: 'warn' | 'error';
  readonly message: string;
  /** Of the log line, as docs/logs.md lists them; default: `service, err`. */
  readonly fields?: string;
  /**
   * The reason of the Event; undefined: there is no Event. `cluster`: the notice is true of all
   * nodes with the same configuration; `node`: of this node, which the Event names.
   */
  readonly event?: { readonly reason: string; readonly scope: 'cluster' | 'node' };
  readonly meaning: string;
  /** What an operator does about it. */
  readonly action: string;
}

export const noticeTable = {
  unresolvable: {
    level: 'error',
    message: 'Could not process Service; keeping its previous rules',
    event: { reason: 'NotUnderstood', scope: 'cluster' },
    meaning: 'A defect.',
    action: 'Report the object and `err`.',
  },
  conflict: {
    message: 'Frontend is already in use by another Service',
    fields: 'service, port, err',
    event: { reason: 'FrontendConflict', scope: 'cluster' },
    meaning:
      '`err`: the Service that has it, or this proxy, the API server or a program of the node.',
    action: 'Change the address or port of one.',
  },
  'left-out': {
    message: 'Not enough memory for Service; leaving it out',
    event: { reason: 'OverLimit', scope: 'cluster' },
    meaning: 'Objects take all memory that they may, its namespace most of it.',
    action:
      'Give the namespace a quota, or the process a larger heap ([limits](limits.md#all-namespaces-together)).',
  },
  'over-limit': {
    message: 'Service exceeds a limit; serving part of it',
    event: { reason: 'OverLimit', scope: 'cluster' },
    meaning: 'It has too many frontends, endpoints or source ranges.',
    action: '[Limits](limits.md).',
  },
  'balance-not-done': {
    message: 'Balance of Service cannot be done here',
    event: { reason: 'BalanceNotDone', scope: 'node' },
    meaning: 'This mode or kernel cannot do what its annotation asks for; it is ignored.',
    action: '[Balancing](balancing.md#balances).',
  },
  'port-range-not-done': {
    message: 'Port range of Service is not served here',
    event: { reason: 'PortRangeNotDone', scope: 'node' },
    meaning: 'Of the range only its first port is served; `err` says why.',
    action: '[Port ranges](port-ranges.md).',
  },
  kept: {
    message: 'API server reports no endpoints of its own Service; keeping the last',
    fields: 'service',
    meaning: 'Service `default/kubernetes` has none, for example while the last API server stops.',
    action: 'If it lasts, see why no API server is registered.',
  },
  'external-ip-of-node': {
    message: 'External IP is an address of this node',
    event: { reason: 'ExternalIPOfNode', scope: 'node' },
    meaning:
      'Ports on which a program of the node listens stay that program’s; at an address that the Node does not name, if it listens there alone.',
    action: 'Unless intended, use an address that no node has.',
  },
  'external-ip': {
    message: 'External IP is not allowed',
    event: { reason: 'ExternalIPNotAllowed', scope: 'cluster' },
    meaning: 'The configuration refuses it, or it is a special address.',
    action: 'Use another address.',
  },
} as const satisfies Readonly<Record<string, NoticeRow>>;

export type NoticeKind = keyof typeof noticeTable;

export interface Notice {
  readonly kind: NoticeKind;
  /** `namespace/name`. */
  readonly service: string;
  /** Undefined: it is about the whole Service. */
  readonly port?: ServicePortName;
  /** The facts, for the log and the Event. Empty: the message has them all. */
  readonly text: string;
  /** The facts for the Event, where readers of the namespace may not know those of the log. */
  readonly note?: string;
  /** metadata.uid of a Service of which nothing else is kept. */
  readonly uid?: string;
}

const none: ReadonlySet<string> = new Set();

/** Reports each fact about a Service once, until it is no longer true. */
export class Notices {
  readonly #observer: (notice: Notice) => void;
  /** The texts that are true, by kind and Service. */
  readonly #reported: { [K in NoticeKind]?: Map<string, ReadonlySet<string>> } = {};

  constructor(observer: (notice: Notice) => void) {
    this.#observer = observer;
  }

  /** `texts` are all facts of this kind that are true now. */
  report(kind: NoticeKind, service: string, texts: readonly string[]): void {
    if (texts.length === 0) {
      this.#reported[kind]?.delete(service);
      return;
    }
    this.#reported[kind] ??= new Map();
    const reported = this.#reported[kind];
    const before = reported.get(service) ?? none;
    const now = new Set(texts);
    reported.set(service, now);
    for (const text of now) if (!before.has(text)) this.#observer({ kind, service, text });
  }

  /** Forgets a Service that is gone. */
  forget(service: string): void {
    for (const reported of Object.values(this.#reported)) reported.delete(service);
  }

  /** The number of Services with a notice of this kind. */
  count(kind: NoticeKind): number {
    return this.#reported[kind]?.size ?? 0;
  }
}
