/** Answers `/fairlead/v1/diff`: compares what is in force with the kernel's state. */
import type { Diff } from '../../ask/difference.ts';
import { apiVersion } from '../../ask/paths.ts';
import { describeOps } from '../../kernel/describe-ops.ts';
import { KernelError } from '../../kernel/errors.ts';
import { pathDescribers } from '../../modes/index.ts';
import type { ModeName } from '../../modes/mode.ts';
import type { Comparison, Difference } from '../../sync/comparison.ts';
import type { FamilySync } from '../../sync/family.ts';
import type { AgentState, RunningEngine } from './agent-state.ts';
import { Refusal } from './refusal.ts';

const differencesMax = 500;
const repairsMax = 20;

type Family = Diff['families'][number];

/** Throws a Refusal. */
export async function diffOf(agent: AgentState): Promise<Diff> {
  const engine = agent.engine;
  const isLive = engine?.families.every(({ progress }) => progress.phase === 'live');
  if (engine === undefined || isLive !== true) {
    throw new Refusal(503, 'the proxy is starting: ask again soon');
  }
  const families: Family[] = [];
  for (const sync of engine.families) families.push(await compared(agent, engine, sync));
  const setAside = engine.families.reduce((sum, { quarantined }) => sum + quarantined.size, 0);
  const isSame = families.every((one) => one.differenceCount === 0 && one.waiting === 0);
  const stale = await agent.connectTime.stale.find();
  const healthy = isSame && setAside === 0 && stale.length === 0;
  return { apiVersion, kind: 'Diff', healthy, families, setAside, stale };
}

async function compared(
  agent: AgentState,
  engine: RunningEngine,
  sync: FamilySync,
): Promise<Family> {
  const comparison = await comparisonOf(engine, sync);
  const { differences } = comparison;
  return {
    family: sync.family,
    compared: comparison.compared,
    leftOut: comparison.leftOut,
    waiting: sync.progress.waiting,
    differences: differences.slice(0, differencesMax).map((one) => shown(agent.mode.name, one)),
    differenceCount: differences.length,
  };
}

async function comparisonOf(engine: RunningEngine, { family }: FamilySync): Promise<Comparison> {
  try {
    const comparison = await engine.compare(family);
    if (comparison !== undefined) return comparison;
    throw new Refusal(503, `${family} changed each time that the kernel was read: ask again`);
  } catch (error) {
    if (error instanceof KernelError) throw new Refusal(503, `${family}: ${error.message}`);
    throw error;
  }
}

function shown(
  mode: ModeName,
  { drift, forwarding, ops }: Difference,
): Family['differences'][number] {
  const repairs: string[] = [];
  const typesOf = pathDescribers[mode].typesOf ?? (() => undefined);
  for (const text of ops.flatMap((one) => Array.from(describeOps(one, typesOf)))) {
    if (repairs.length < repairsMax) repairs.push(text);
  }
  if (forwarding === undefined) return { ...drift, repairs };
  const { namespace, name, port, protocol } = forwarding.servicePort;
  return { service: { namespace, name, port, protocol }, ...drift, repairs };
}
