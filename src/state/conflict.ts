import { formatAddress, joinHostPort } from '../net/address.ts';
import { formatPorts } from '../net/host-port.ts';
import type { Protocol } from '../net/protocol.ts';
import { type Frontend, formatServicePortName, type ServicePortName } from './types.ts';

/** A Service does not get an address or port that it claims. */
export interface Conflict {
  readonly loser: ServicePortName;
  readonly frontend: Frontend;
  /** Key (`ns/name`) of the Service whose claim has precedence. */
  readonly holder: string;
}

/** `TCP 10.0.0.1:80`, `UDP [fd00::1]:53`, `TCP node port 30080`. */
export function formatFrontend(
  protocol: Protocol,
  frontend: Pick<Frontend, 'address' | 'port' | 'lastPort'>,
): string {
  if (frontend.address === undefined) return `${protocol} node port ${frontend.port}`;
  return `${protocol} ${joinHostPort(formatAddress(frontend.address.bytes), formatPorts(frontend))}`;
}

/** `web/shop:http does not get TCP 10.0.0.1:80, which web/cart holds`: for logs of the node. */
export function formatConflict(conflict: Conflict): string {
  return `${lost(conflict)}, which ${conflict.holder} holds`;
}

/**
 * The same for readers of the loser's namespace, who may not see other namespaces: the holder is
 * named only if it is in theirs.
 */
export function formatConflictForLoser(conflict: Conflict): string {
  const { holder, loser } = conflict;
  const isService = holder.includes('/');
  if (!isService || holder.startsWith(`${loser.namespace}/`)) return formatConflict(conflict);
  return `${lost(conflict)}, which a Service of another namespace holds`;
}

function lost({ loser, frontend }: Conflict): string {
  return `${formatServicePortName(loser)} does not get ${formatFrontend(loser.protocol, frontend)}`;
}
