import { type Resolved, resolveInSteps, type Seen } from '../../state/resolve.ts';
import type { Service } from '../../state/types.ts';
import type { Pacer } from '../../time/pacer.ts';
import type { AgentState } from './agent-state.ts';
import { Refusal } from './refusal.ts';

/** Resolves the Service as its next change would, and records what the resolver sees. */
export async function look(
  { engine, state }: Pick<AgentState, 'engine' | 'state'>,
  service: Service,
  pacer: Pacer,
): Promise<{ readonly resolved: Resolved; readonly seen: readonly Seen[] }> {
  if (engine === undefined) throw new Refusal(503, 'the proxy is starting: ask again soon');
  const seen: Seen[] = [];
  const families = engine.families.map(({ family }) => family);
  const slices = state.servedSlices(service.key);
  const steps = resolveInSteps(service, slices, engine.context, (one) => {
    if (families.includes(one.forwarding.family)) seen.push(one);
  });
  for (;;) {
    const { done, value } = steps.next();
    if (done) return { resolved: value, seen };
    if (pacer.due) await pacer.rest();
  }
}
