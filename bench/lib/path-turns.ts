/**
 * Ways to an endpoint that are programmed together, and take turns, so that all of them meet the
 * same load.
 */
import type { Contender } from './path-contenders.ts';
import { type Kind, type Measured, PathStage } from './path-stage.ts';
import { summarise } from './stats.ts';

/** A contender that has programmed its stage. */
interface Ready {
  readonly contender: Contender;
  readonly stage: PathStage;
  readonly cgroup: string | undefined;
}

/** Runs `work` with all of them programmed, one after the other. */
export async function withReady(
  waiting: readonly Contender[],
  services: number,
  work: (ready: readonly Ready[]) => void,
  ready: readonly Ready[] = [],
): Promise<void> {
  const [contender, ...others] = waiting;
  if (contender === undefined) return work(ready);
  const stage = new PathStage(`path-${ready.length}`);
  try {
    await stage.ready();
    await contender.program(stage, services, (cgroup) =>
      withReady(others, services, work, [...ready, { contender, stage, cgroup }]),
    );
  } finally {
    stage.close();
  }
}

/** What each kind costs, of those that were measured. */
export type Costs = Readonly<Record<Kind, Measured>>;

type Summary = (measured: readonly Measured[]) => Measured;

/** Measures each kind on each stage in turn, and again in the opposite order. */
export function inTurns(
  ready: readonly Ready[],
  what: readonly Kind[],
  times: number,
  ms: number,
  family: 'IPv4' | 'IPv6' = 'IPv4',
  summary: Summary = best,
): ReadonlyMap<string, Costs> {
  const found = new Map<string, Measured[]>();
  for (let round = 0; round < times; round += 1) {
    const order = round % 2 === 0 ? ready : ready.toReversed();
    for (const kind of what) {
      for (const { cgroup, contender, stage } of order) {
        const { name, toService } = contender;
        const key = `${name}: ${kind}`;
        const one = stage.measure(kind, ms, { cgroup, family, toService });
        found.set(key, [...(found.get(key) ?? []), one]);
      }
    }
  }
  return new Map(
    ready.map(({ contender: { name } }) => [
      name,
      Object.fromEntries(
        what.map((kind) => [kind, summary(found.get(`${name}: ${kind}`)!)]),
      ) as Costs,
    ]),
  );
}

export function median(measured: readonly Measured[]): Measured {
  const of = (key: keyof Measured): number => summarise(measured.map((one) => one[key])).p50;
  return { perSecond: of('perSecond'), p50Us: of('p50Us'), processorUs: of('processorUs') };
}

/** The best of each kind; processor time is the mean of all rounds. */
function best(measured: readonly Measured[]): Measured {
  return {
    perSecond: Math.max(...measured.map(({ perSecond }) => perSecond)),
    p50Us: Math.min(...measured.map(({ p50Us }) => p50Us)),
    processorUs: measured.reduce((sum, one) => sum + one.processorUs, 0) / measured.length,
  };
}
