/** Why a connection got no answer, as neighbours, routes and sockets of this node show it. */
import { counted } from '../../ask/words.ts';
import type { ReadableFiles } from '../../host/files.ts';
import { type DeadHops, deadHopTo, routesFrom, routesOf } from '../../host/routing.ts';
import { waitingAt } from '../../host/tcp-sockets.ts';
import type { Address } from '../../net/address.ts';

/** `own`: addresses of this machine. Undefined: nothing of it explains it. */
export function causeOf(
  machine: ReadableFiles,
  { address, port }: { readonly address: Address; readonly port: number },
  own: readonly Address[],
  dead: DeadHops,
): string | undefined {
  if (own.some(({ key }) => key === address.key)) {
    const waiting = waitingAt(machine, address, port);
    if (waiting === 0) return undefined;
    return `its accept queue is full: ${counted(waiting, 'connection')} wait for its program`;
  }
  const routes = routesFrom(address.family, routesOf(machine));
  return deadHopTo(address.latin1, routes, dead);
}
