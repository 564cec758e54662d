/** Makes the connections of an attempt, and says whether they went as they should. */
import type { Attempt, Scene } from './checks.ts';
import type { Exchange, Exchanged } from './exchange.ts';

/** What is wrong; undefined: nothing. */
type Verdict = string | undefined;

/** The least connections of an attempt. */
const connectionsMin = 4;
/** Of two servers, one is missing by chance in one of 2^29 attempts. */
const connectionsMax = 30;
/** How long an answer may take, in milliseconds. */
const timeoutMs = 2000;
/** Connections that may fail at first: the objects are new, and proxies may be busy. */
const earlyFailures = 5;

export async function judge(attempt: Attempt, scene: Scene, exchange: Exchange): Promise<Verdict> {
  const { expected } = attempt;
  if (expected === 'refused' || expected === 'dropped' || expected.startsWith('status')) {
    const isExpected = (one: Exchanged): boolean =>
      'failed' in one && one.failed === (expected === 'dropped' ? 'timeout' : expected);
    const found = await firstThat(isExpected, attempt, exchange);
    return isExpected(found) ? undefined : `${told(found)}, and should be ${expected}`;
  }
  const first = await firstThat((one) => 'server' in one, attempt, exchange);
  const seen = new Map<string, number>();
  let latest = first;
  for (let made = 1; ; made += 1) {
    if ('failed' in latest) return afterSome(latest, made);
    seen.set(latest.server, (seen.get(latest.server) ?? 0) + 1);
    const wrong = wrongOf(attempt, latest, seen, scene);
    if (wrong !== undefined) return wrong;
    const isMissing = expected === 'every' && seen.size < scene.servers.length;
    if (made >= connectionsMin && !isMissing) return undefined;
    if (made === connectionsMax) return `only ${[...seen.keys()]} answers ${made} connections`;
    latest = await exchange(attempt, timeoutMs);
  }
}

/** The first exchange that is so, or the last one. */
async function firstThat(
  isSo: (one: Exchanged) => boolean,
  attempt: Attempt,
  exchange: Exchange,
): Promise<Exchanged> {
  for (let left = earlyFailures; ; left -= 1) {
    const found = await exchange(attempt, timeoutMs);
    if (isSo(found) || left === 0) return found;
  }
}

function told(one: Exchanged): string {
  return 'failed' in one ? one.error : `${one.server} answers`;
}

function afterSome(one: Exchanged, made: number): string {
  return made === 1
    ? told(one)
    : `connection ${made} failed after others were answered: ${told(one)}`;
}

function wrongOf(
  { expected }: Attempt,
  { own, seen: client, server }: Extract<Exchanged, { server: string }>,
  seen: ReadonlyMap<string, number>,
  { servers }: Scene,
): Verdict {
  if (expected === 'one' && seen.size > 1) return `several servers answer: ${[...seen.keys()]}`;
  const isFirst = server === servers[0]?.name;
  if ((expected === 'first' || expected === 'kept') && !isFirst) {
    return `${server} answers, which is on another node`;
  }
  if (expected !== 'kept' || client === own) return undefined;
  return `the server sees the client as ${client}, and not as ${own}`;
}
