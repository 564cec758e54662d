/** Connect-time translation as a part of what a family keeps in force. */
import type { Environment, ModeConfig, Planner } from '../mode.ts';
import { PairedPlanner } from '../paired-planner.ts';
import { ModePlanner } from '../planner.ts';
import { ConnectTimeBackend } from './backend.ts';
import type { Placement } from './placement.ts';

/** `rules`, and beside them connect-time translation, if there is to be any. */
export function withConnectTime(
  rules: Planner,
  placement: Placement | undefined,
  config: ModeConfig,
  environment: Environment,
): Planner {
  if (placement === undefined) return rules;
  const beside = new ModePlanner(new ConnectTimeBackend(config, placement), environment);
  return new PairedPlanner(rules, beside);
}
