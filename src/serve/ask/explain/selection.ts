/** Which endpoints of a Service port are used, and why the others are not. Asks the resolver. */
import { counted } from '../../../ask/words.ts';
import { choose, whyNot } from '../../../state/categorise.ts';
import type { Seen } from '../../../state/resolve.ts';
import { objectKey } from '../../../state/types.ts';
import { Pacer } from '../../../sync/clock.ts';
import { otherFamilyProblems } from '../endpoint-problems.ts';
import { look } from '../service.ts';
import { endpointRemarks, missingPort, noEndpoints } from '../service-problems.ts';
import { sliceMs } from '../services.ts';
import type { Scene } from './scene.ts';
import type { Holder } from './search.ts';

/** What the Forwarding was resolved from; undefined: the Service is gone. */
export async function seenOf(
  { inside }: Scene,
  { forwarding: { family, key, servicePort } }: Holder,
): Promise<Seen | undefined> {
  const service = inside.state.service(objectKey(servicePort.namespace, servicePort.name));
  if (service === undefined) return undefined;
  const { seen } = await look(inside, service, new Pacer(inside.clock, sliceMs));
  return seen.find(({ forwarding: one }) => one.family === family && one.key === key);
}

/** Why there is no endpoint that can be used: a sentence. */
export function whyNone({ inside }: Scene, { forwarding, port, candidates }: Seen): string {
  const { family, servicePort } = forwarding;
  const slices = inside.state.slices(objectKey(servicePort.namespace, servicePort.name));
  const { length: endpointCount } = candidates.endpoints;
  const { name, protocol } = port;
  const [reason] = [
    ...noEndpoints(slices),
    ...otherFamilyProblems({ endpointCount, family }, slices),
    ...missingPort({ endpointCount, family, name, protocol }, slices),
  ];
  if (reason !== undefined) return reason;
  if (endpointCount === 0) return `It has no endpoint of ${family}.`;
  if (endpointCount === 1) return 'Its only endpoint is not ready.';
  return `None of its ${counted(endpointCount, 'endpoint')} is ready.`;
}

/** What decided about the endpoints of a pool, in sentences. */
export function selectionOf(scene: Scene, seen: Seen, pool: 'cluster' | 'local'): string[] {
  const { flags } = seen.candidates;
  const choice = choose(flags, seen.policy)[pool];
  if (choice === undefined) return [];
  const reasons = new Map<string, number>();
  for (const flag of flags) {
    const reason = whyNot(flag, choice, pool);
    if (reason !== undefined) reasons.set(reason, (reasons.get(reason) ?? 0) + 1);
  }
  const left = Array.from(reasons, ([reason, count]) => {
    const whose = `${count} of ${counted(flags.length, 'endpoint')}`;
    return count === 1
      ? `${whose} is left out: it ${reason}.`
      : `${whose} are left out: each ${reason}.`;
  });
  return [...endpointRemarks(seen, scene.engine.context.zone), ...left];
}
