import type { ServiceAnswer } from '../../ask/service.ts';
import { formatAddress } from '../../net/address.ts';
import { type FrontendKey, frontendKey } from '../../state/frontend-key.ts';
import type { Forwarding, Frontend } from '../../state/types.ts';
import type { RunningEngine } from './agent-state.ts';

type Shown = ServiceAnswer['ports'][number]['frontends'][number];

/** `held`: keys of the Service's frontends that are in force. */
export function shownFrontend(
  engine: Pick<RunningEngine, 'owners'>,
  forwarding: Forwarding,
  frontend: Frontend,
  held: ReadonlySet<FrontendKey>,
): Shown {
  const { address, kind, pool, port, treatment } = frontend;
  const isHeld = held.has(frontendKey(frontend));
  return {
    kind,
    ...(address === undefined ? {} : { address: formatAddress(address.bytes) }),
    port,
    treatment,
    pool,
    ...(isHeld ? {} : { heldBy: engine.owners.ownerInsteadOf(forwarding, frontend) }),
  };
}
