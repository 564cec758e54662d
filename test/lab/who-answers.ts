/** Which servers a client reaches at an address. */
import type { Actor } from './actor.ts';
import type { Outcome, SocketAddress } from './outcome.ts';
import { answerMs } from './pace.ts';

export interface Asking {
  readonly connections?: number;
  /** Of each connection. */
  readonly timeoutMs?: number;
  /** Those that must answer. As endpoints are chosen at random, more connections wait for them. */
  readonly awaited?: readonly string[];
}

/** As in stories: two servers leave one of them out 160 times once in 2^159. */
const connectionsMax = 160;

/** Who answers over TCP, each once, or how it ends. Sorted. */
export async function whoAnswers(
  actor: Actor,
  to: SocketAddress,
  { connections = 16, timeoutMs = answerMs, awaited = [] }: Asking = {},
): Promise<string[]> {
  const attempt = { protocol: 'TCP', to, timeoutMs } as const;
  const found = new Set<string>();
  for (let made = 0; made < connectionsMax; made += connections) {
    const tally = await actor.connect(attempt, connections);
    for (const { outcome } of tally) found.add(serverOf(outcome));
    const isWrong = [...found].some((name) => !awaited.includes(name));
    if (isWrong || awaited.every((name) => found.has(name))) break;
  }
  return [...found].sort();
}

/** The name of the server that answered, or the kind of any other outcome. */
export function serverOf(outcome: Outcome): string {
  return outcome.kind === 'answered' ? outcome.by : outcome.kind;
}
