/** Compares what modes do with packets, through the rounds of a world. */
import { isDeepStrictEqual } from 'node:util';
import { Random } from '../chaos/random.ts';
import type { Raw } from '../fake/api-server-store.ts';
import type { Odds } from '../fake/chance.ts';
import {
  expected,
  expectedAtConnectTime,
  expectedOfKubeProxy,
  pairs,
  same,
} from './between-modes.ts';
import { flowsOf, flowText } from './flows.ts';
import { type Flow, ModeNode, type Subject } from './mode-node.ts';
import type { Edit, World } from './worlds.ts';

/** What a world was compared by. */
export interface Counts {
  worlds: number;
  flows: number;
  readonly rules: Map<string, number>;
}

/** A packet for which a mode does something that no rule explains. */
export interface Difference {
  /** What was compared: `ipvs` with another mode, `nftables at connect time`. */
  readonly what: string;
  readonly round: number;
  /** Absent: the program failed. */
  readonly flow?: Flow;
  readonly words: string;
}

/** A check of one flow; what it expects, and what it finds. */
interface Check {
  readonly what: string;
  readonly needs: readonly Subject[];
  readonly run: (
    nodes: Nodes,
    flow: Flow,
    note: (rule: string) => void,
  ) => readonly [Odds, Odds] | undefined;
}
type Nodes = Readonly<Record<Subject, ModeNode>>;

const betweenModes: readonly Check[] = [
  ...pairs.map(
    ([one, another]): Check => ({
      what: one,
      needs: [one, another],
      run: ({ [one]: own, [another]: other }, flow, note) => {
        const odds = expected({ flow, own, other, note });
        return odds && [odds, own.answer(flow)];
      },
    }),
  ),
  {
    what: 'nftables at connect time',
    needs: ['nftables'],
    run: ({ nftables }, flow, note) => {
      if (flow.iif !== undefined && flow.iif !== 'veth0') return undefined;
      const found = nftables.answerAtConnectTime(flow);
      return found && [expectedAtConnectTime(nftables.answer(flow), note), found];
    },
  },
];

/** A node with kube-proxy. */
interface Peer extends Pick<ModeNode, 'answer' | 'take'> {
  readonly mode: 'nftables' | 'iptables';
  /** Forgets all. */
  begin(flags: readonly string[]): Promise<void>;
}

/** Together with kube-proxy in the same mode. */
function checksWith(proxy: Peer): Check[] {
  const { mode } = proxy;
  const run: Check['run'] = ({ [mode]: own }, flow, note) => {
    const odds = expectedOfKubeProxy(own, flow, note);
    return odds && [odds, proxy.answer(flow)];
  };
  return [{ what: `kube-proxy in mode ${mode}`, needs: [mode], run }];
}

const never: Odds = new Map();

/** Flows compared after each round. */
const flowsARound = 24;

/** By some flows after each round, as `seed` says, or by all. `proxy`: with that alone. */
export async function compare(world: World, counts: Counts, seed: number | 'all', proxy?: Peer) {
  const random = new Random(seed === 'all' ? 0 : seed);
  const checks = proxy === undefined ? betweenModes : checksWith(proxy);
  const needs = new Set(checks.flatMap((check) => check.needs));
  const judge = (nodes: Nodes, round: number): Difference | undefined => {
    const all = flowsOf(Object.values(nodes)[0]!.objects);
    counts.worlds += 1;
    const some = Array.from({ length: flowsARound }, () => random.pick(all));
    for (const flow of seed === 'all' ? all : some) {
      counts.flows += 1;
      for (const check of checks) {
        const words = differenceIn(check, nodes, flow, counts.rules);
        if (words !== undefined) return { what: check.what, round, flow, words };
      }
    }
    return undefined;
  };
  return through(world, [...needs], judge, proxy);
}

/** Whether the world still differs in the same way. */
async function isStill(
  world: World,
  { flow, what, words }: Difference,
  proxy: Peer | undefined,
): Promise<boolean> {
  const checks = proxy === undefined ? betweenModes : checksWith(proxy);
  const check = checks.find((one) => one.what === what);
  const needs = check?.needs ?? (proxy === undefined ? [what as Subject] : []);
  const judge = (nodes: Nodes, round: number): Difference | undefined => {
    if (flow === undefined || check === undefined) return undefined;
    const now = differenceIn(check, nodes, flow);
    return now === undefined ? undefined : { what, round, flow, words: now };
  };
  // A flag that another one needs was left out.
  const found = await through(world, needs, judge, proxy).catch(() => undefined);
  if (found === undefined || (found.flow === undefined) !== (flow === undefined)) return false;
  return flow !== undefined || found.words === words;
}

async function through(
  world: World,
  needs: readonly Subject[],
  judge: (nodes: Nodes, round: number) => Difference | undefined,
  proxy?: Peer,
): Promise<Difference | undefined> {
  await proxy?.begin(world.flags);
  const made = needs.map((subject) => [subject, new ModeNode(subject, world.flags)] as const);
  const nodes = Object.fromEntries(made) as Nodes;
  try {
    for (const [round, edits] of world.rounds.entries()) {
      for (const [what, node] of [...made, ...(proxy ? [['kube-proxy', proxy] as const] : [])]) {
        try {
          await node.take(edits);
        } catch (error) {
          return { what, round, words: (error as Error).message };
        }
      }
      const found = judge(nodes, round);
      if (found !== undefined) return found;
    }
    return undefined;
  } finally {
    for (const [, node] of made) await node.stop();
  }
}

function differenceIn(
  { run, what }: Check,
  nodes: Nodes,
  flow: Flow,
  rules?: Counts['rules'],
): string | undefined {
  const noted = new Set<string>();
  const found = run(nodes, flow, (rule) => noted.add(rule));
  const [expectedOdds, odds] = found ?? [never, never];
  if (same(expectedOdds, odds)) {
    for (const rule of noted) {
      const key = `${what}: ${rule}`;
      rules?.set(key, (rules.get(key) ?? 0) + 1);
    }
    return undefined;
  }
  const by = noted.size === 0 ? '' : ` (${[...noted].join(', ')})`;
  return `expected ${oddsText(expectedOdds)}${by}, found ${oddsText(odds)}`;
}

function oddsText(odds: Odds): string {
  return [...odds]
    .map(([end, probability]) => (probability === 1 ? end : `${end} ${probability.toFixed(3)}`))
    .sort()
    .join(' | ');
}

/** A smaller world that still differs: nothing more can be left out by itself. */
export async function shrunk(world: World, difference: Difference, proxy?: Peer): Promise<World> {
  const rounds = world.rounds.slice(0, difference.round + 1);
  let smallest: World = { ...world, rounds };
  const attempt = async (smaller: World): Promise<boolean> => {
    if (!(await isStill(smaller, difference, proxy))) return false;
    smallest = smaller;
    return true;
  };
  await attempt({ ...world, rounds: [finalEdits(rounds.flat())] });
  let before: World;
  do {
    before = smallest;
    // From the end: indexes of what stays do not change.
    for (const path of pathsOf(smallest).reverse()) await attempt(without(smallest, path) as World);
  } while (!isDeepStrictEqual(before, smallest));
  return smallest;
}

/** The edits of one round that lead to the same objects. */
function finalEdits(edits: readonly Edit[]): Edit[] {
  const objects = new Map<string, Edit>();
  for (const edit of edits) {
    if ('put' in edit) objects.set(subjectOf(edit.put), edit);
    else if ('gone' in edit) objects.delete(edit.gone);
    else if ('interfaces' in edit) objects.set('interfaces', edit);
  }
  return [...objects.values()];
}

function subjectOf({ kind, metadata }: Raw): string {
  const { name, namespace } = metadata as Raw;
  return namespace === undefined ? `${kind} ${name}` : `${kind} ${namespace}/${name}`;
}

type Path = readonly (string | number)[];

/** Where something may be left out; what is outside comes before what is in it. */
function pathsOf(value: unknown, path: Path = []): Path[] {
  if (typeof value !== 'object' || value === null) return [];
  const keys = Array.isArray(value) ? [...value.keys()] : Object.keys(value);
  return keys.flatMap((key) => {
    const inner = [...path, key];
    const own = ['rounds', 'flags', 'put', 'kind', 'metadata'].includes(String(key)) ? [] : [inner];
    return [...own, ...pathsOf((value as Raw)[key], inner)];
  });
}

function without(value: unknown, [key, ...rest]: Path): unknown {
  if (key === undefined) return value;
  if (Array.isArray(value)) {
    const at = key as number;
    return rest.length === 0 ? value.toSpliced(at, 1) : value.with(at, without(value[at], rest));
  }
  const { [key]: inner, ...others } = value as Raw;
  return rest.length === 0 ? others : { ...(value as Raw), [key]: without(inner, rest) };
}

export function differenceText(world: World, { flow, round, what, words }: Difference): string {
  const about = flow === undefined ? '' : `, ${flowText(flow)}`;
  const lines = world.rounds.flatMap((edits, i) => [
    `round ${i}:`,
    ...edits.map((edit) => `  ${JSON.stringify(edit)}`),
  ]);
  return [`${what}${about}, round ${round}: ${words}`, world.flags.join(' '), ...lines].join('\n');
}
