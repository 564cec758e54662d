/** Which endpoints of a Service port are used, and why the others are not. Asks the resolver. */

import { counted } from '../../../ask/words.ts';
import { addCount } from '../../../net/counts.ts';
import { choose, whyNot } from '../../../state/categorise.ts';
import type { Seen } from '../../../state/resolve.ts';
import { serviceKey } from '../../../state/types.ts';
import { answerPacer } from '../answer-pacer.ts';
import { detectionRemarks } from '../endpoint-answers.ts';
import { emptyProblem, nodeless, otherFamilyProblem } from '../endpoint-problems.ts';
import { limitRemarks } from '../limit-problems.ts';
import { look } from '../look.ts';
import { dealRemarks, endingRemarks, endpointRemarks } from '../port-remarks.ts';
import { missingPort } from '../service-problems.ts';
import type { ExplainInput } from './input.ts';
import type { Holder } from './search.ts';

/** The input from which the Forwarding was resolved; undefined: the Service is gone. */
export async function seenOf(
  { agent }: ExplainInput,
  { forwarding: { family, key, servicePort } }: Holder,
): Promise<Seen | undefined> {
  const service = agent.state.service(serviceKey(servicePort));
  if (service === undefined) return undefined;
  const { seen } = await look(agent, service, answerPacer(agent));
  return seen.find(({ forwarding: one }) => one.family === family && one.key === key);
}

/** Why no endpoint is usable: a sentence. */
export function whyNoEndpoint({ agent }: ExplainInput, seen: Seen): string {
  const { family, servicePort } = seen.forwarding;
  const { name, namespace } = servicePort;
  const key = serviceKey(servicePort);
  const slices = agent.state.slices(key);
  const { length: endpointCount } = seen.candidates.endpoints;
  const problem =
    emptyProblem(agent.state, { key, name, namespace }) ??
    (endpointCount > 0 ? undefined : otherFamilyProblem(family, slices)) ??
    missingPort(
      seen,
      slices.filter(({ length }) => length > 0),
    );
  if (problem !== undefined) return problem.text();
  if (endpointCount === 0) return `It has no endpoint of ${family}.`;
  if (endpointCount === 1) return 'Its only endpoint is not ready.';
  return `None of its ${counted(endpointCount, 'endpoint')} is ready.`;
}

/** The policies and conditions that selected the endpoints of a pool, in sentences. */
export function selectionOf(input: ExplainInput, seen: Seen, pool: 'cluster' | 'local'): string[] {
  const { endpoints, flags } = seen.candidates;
  const choice = choose(flags, seen.policy)[pool];
  if (choice === undefined) return [];
  const key = serviceKey(seen.forwarding.servicePort);
  const isNodeless = nodeless(input.agent.state.slices(key));
  const reasons = new Map<string, number>();
  for (let i = 0; i < flags.length; i += 1) {
    const reason = whyNot(flags[i]!, choice, pool, isNodeless(endpoints.address(i)));
    if (reason !== undefined) addCount(reasons, reason);
  }
  const left = Array.from(reasons, ([reason, count]) => {
    const whose = `${count} of ${counted(flags.length, 'endpoint')}`;
    return count === 1
      ? `${whose} is left out: it ${reason}.`
      : `${whose} are left out: each ${reason}.`;
  });
  const service = input.agent.state.service(key);
  return [
    ...dealRemarks(seen.forwarding),
    ...endingRemarks(seen.forwarding, input.agent.mode),
    ...(service === undefined ? [] : detectionRemarks(input.agent, service, seen)),
    ...(service === undefined ? [] : limitRemarks(service)),
    ...endpointRemarks(seen, input.engine.context.zone),
    ...left,
  ];
}
