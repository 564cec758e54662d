/**
 * What settings allow each client address, and each namespace, of connections to all Services. A
 * share of connection tracking bounds open connections by its half, and by the other half the new
 * ones of two minutes: the kernel keeps a TCP connection that has ended for this time
 * (nf_conntrack_tcp_timeout_time_wait), and does not count it as open.
 */
import type { CIDR } from '../net/address.ts';

export interface BoundSettings {
  readonly clientConnections: number;
  readonly clientShare: number;
  readonly namespaceConnections: number;
  readonly namespaceShare: number;
  readonly exemptClients: readonly CIDR[];
}

export interface Bound {
  /** The most open connections. */
  readonly open: number;
  /** New connections, and how many may come together. */
  readonly rate: number;
  readonly per: 'second' | 'minute';
  readonly burst: number;
}

/** Undefined: there is none. */
export interface Bounds {
  readonly client: Bound | undefined;
  readonly namespace: Bound | undefined;
  readonly exempt: readonly CIDR[];
}

/** Whether the settings bound anything. */
export function areSet(settings: BoundSettings): boolean {
  const { clientConnections, clientShare, namespaceConnections, namespaceShare } = settings;
  return clientConnections + clientShare + namespaceConnections + namespaceShare > 0;
}

/** `entries`: what connection tracking has room for; undefined: it has no limit. */
export function boundsOf(settings: BoundSettings, entries: number | undefined): Bounds {
  return {
    client: boundOf(settings.clientConnections, settings.clientShare, entries),
    namespace: boundOf(settings.namespaceConnections, settings.namespaceShare, entries),
    exempt: settings.exemptClients,
  };
}

function boundOf(most: number, percent: number, entries: number | undefined): Bound | undefined {
  const share = percent === 0 || entries === undefined ? Infinity : (entries * percent) / 100;
  const open = Math.max(1, Math.min(most || Infinity, Math.floor(share / 2)));
  if (open === Infinity) return undefined;
  if (share === Infinity) return { open, rate: open, per: 'second', burst: open };
  // In any two minutes as many as can come together, and what two minutes bring: a half in all.
  const quarter = Math.max(1, Math.floor(share / 4));
  return { open, rate: Math.max(1, Math.floor(quarter / 2)), per: 'minute', burst: quarter };
}
