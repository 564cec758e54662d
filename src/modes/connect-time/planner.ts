/** Connect-time translation as a part of what a family keeps in force. */
import type { Environment, ModeConfig, Planner } from '../mode.ts';
import { PairedPlanner } from '../paired-planner.ts';
import { ConnectTimeBackend } from './backend.ts';
import { BoundedPlanner } from './bounded-planner.ts';
import type { Placement } from './placement.ts';

/** `rules`, and beside them connect-time translation, if there is to be any. */
export function withConnectTime(
  rules: Planner,
  placement: Placement | undefined,
  config: ModeConfig,
  environment: Environment,
): Planner {
  if (placement === undefined) return rules;
  const backend = new ConnectTimeBackend(config, placement);
  const setting = { config, reach: placement.reach };
  const beside = new BoundedPlanner({ backend, environment, placement, setting });
  return new PairedPlanner(rules, beside);
}
