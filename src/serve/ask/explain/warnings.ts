/** Why the explained state, which is in force, is not the desired one. */
import { type Forwarding, formatServicePortName, serviceKey } from '../../../state/types.ts';
import { failureText } from '../../refusal-text.ts';
import { portState } from '../port-state.ts';
import { type ExplainInput, targetText } from './input.ts';
import type { Holder } from './search.ts';

/** Warnings, the most important first. `desired` is used if no Service is in force. */
export function warningsOf(
  input: ExplainInput,
  inForce: Holder | undefined,
  desired: Holder | undefined,
): string[] {
  const holder = inForce ?? desired;
  return [
    ...starting(input),
    ...(holder === undefined ? [] : waiting(input, holder, inForce !== undefined)),
    ...lost(input, holder),
  ];
}

/** Whether the desired state of the Service port is in force. */
export function isInForce(
  { agent, sync }: ExplainInput,
  { key, servicePort }: Forwarding,
): boolean {
  return portState(agent, serviceKey(servicePort), key, sync).status === 'in force';
}

function starting({ sync }: ExplainInput): string[] {
  const { phase } = sync.progress;
  if (phase === 'live') return [];
  return [`${sync.family} is starting (${phase}): its previous state may still be in force.`];
}

function waiting(input: ExplainInput, { forwarding }: Holder, holdsInForce: boolean): string[] {
  const { sync } = input;
  if (isInForce(input, forwarding)) return [];
  const { key } = forwarding;
  const name = formatServicePortName(forwarding.servicePort);
  const still = holdsInForce ? 'its previous state is still in force' : 'nothing of it is in force';
  const aside = sync.quarantined.get(key);
  if (aside !== undefined) {
    const tries = aside.attempts === 1 ? 'once' : `${aside.attempts} times`;
    const error = failureText(aside.failure);
    return [`The kernel refuses ${name} (tried ${tries}): ${error}; ${still}.`];
  }
  if (!sync.desired.has(key)) return [`${name} is to be removed, and is still in force.`];
  return [`${name} has changed, and the change is not in force yet; ${still}.`];
}

/** Warns if another Service has the address of the one that the question names. */
function lost(input: ExplainInput, holder: Holder | undefined): string[] {
  const { service } = input.target;
  if (service === undefined || holder === undefined) return [];
  const has = serviceKey(holder.forwarding.servicePort);
  if (has === service.key) return [];
  return [`${service.key} asks for ${targetText(input)}, but ${has} has it: its claim is better.`];
}
