import type { ServiceAnswer } from '../../ask/service.ts';
import { formatAddress } from '../../net/address.ts';
import type { Forwarding, Frontend } from '../../state/types.ts';
import type { RunningEngine } from './inside.ts';

type Shown = ServiceAnswer['ports'][number]['frontends'][number];

/** `held`: those that the Service has got. */
export function shownFrontend(
  engine: Pick<RunningEngine, 'holderOf'>,
  forwarding: Forwarding,
  frontend: Frontend,
  held: readonly Frontend[],
): Shown {
  const { address, kind, pool, port, treatment } = frontend;
  const isHeld = held.some((one) => one.kind === kind && isAt(one, frontend));
  return {
    kind,
    ...(address === undefined ? {} : { address: formatAddress(address.bytes) }),
    port,
    treatment,
    pool,
    ...(isHeld ? {} : { heldBy: engine.holderOf(forwarding, frontend) }),
  };
}

function isAt(a: Frontend, b: Frontend): boolean {
  if (a.port !== b.port) return false;
  if (a.address === undefined || b.address === undefined) return a.address === b.address;
  return Buffer.compare(a.address.bytes, b.address.bytes) === 0;
}
