/** Runs the steps of a case on a kernel, and records their outcomes. */
import type { ApplyResult, Kernel, ReplyOf } from '../../src/kernel/kernel.ts';
import { NFT_DATA_VERDICT, NFT_SET } from '../../src/kernel/nft/constants.ts';
import { ElementShape, type Reply } from '../../src/kernel/ops.ts';
import type { Case, Outcome, Seen } from './nft-cases.ts';
import { batch, dumped } from './ops.ts';

export interface Recorded {
  readonly outcomes: readonly Outcome[];
  /** The change of the generation by each step. */
  readonly generations: readonly number[];
  /** Everything in the kernel after each step, without handles. */
  readonly dumps: readonly unknown[];
}

export async function record(kernel: Kernel, { steps }: Case): Promise<Recorded> {
  const outcomes: Outcome[] = [];
  const generations: number[] = [];
  const dumps: unknown[] = [];
  for (const { ops } of steps) {
    const before = await kernel.generation();
    const wanted = typeof ops === 'function' ? ops(await seen(kernel, before)) : ops;
    outcomes.push(outcomeOf(await kernel.apply(batch(...wanted))));
    generations.push((await kernel.generation()) - before);
    dumps.push(await dumpAll(kernel));
  }
  return { outcomes, generations, dumps };
}

async function seen(kernel: Kernel, generation: number): Promise<Seen> {
  const request = { kind: 'rulesDump', family: 0, table: '', chain: '' } as const;
  const rules = await dumped(kernel, 'rule', request);
  return { generation, handles: rules.map(({ handle }) => handle) };
}

function outcomeOf(result: ApplyResult): Outcome {
  if (result.kind === 'applied') return 'applied';
  return result.failures.map(({ code, op, entry }) => {
    const place = op === undefined ? '' : ` at ${op}`;
    return `${code}${place}${entry === undefined ? '' : ` entry ${entry}`}`;
  });
}

/** Everything in the kernel, without handles, and without counts, which older kernels lack. */
export async function dumpAll(kernel: Kernel) {
  const all = { family: 0, table: '' };
  const sets = await dumped(kernel, 'set', { kind: 'setsDump', ...all });
  const records: Reply[] = [
    ...(await dumped(kernel, 'table', { kind: 'tablesDump', family: 0 })),
    ...(await dumped(kernel, 'chain', { kind: 'chainsDump', ...all })),
    ...(await dumped(kernel, 'rule', { kind: 'rulesDump', ...all, chain: '' })),
    ...sets,
  ];
  const elements: Record<string, string[]> = {};
  for (const set of sets) elements[set.set] = await elementsOf(kernel, set);
  return { objects: records.map(withoutHandle), elements };
}

function withoutHandle(record: Reply): object {
  return { ...record, handle: 0, count: 0 };
}

/** Entries in hexadecimal, sorted because a hash has no order. */
async function elementsOf(kernel: Kernel, set: ReplyOf<'set'>): Promise<string[]> {
  const { family, table, flags, keyLength, dataLength, dataType } = set;
  const isRange = (flags & NFT_SET.INTERVAL) !== 0;
  const shape =
    (isRange ? ElementShape.flags : 0) |
    (dataLength > 0 ? ElementShape.data : 0) |
    (dataType === NFT_DATA_VERDICT ? ElementShape.verdict | ElementShape.comment : 0);
  const request = { family, table, set: set.set, shape, keyLength, dataLength };
  const replies = await dumped(kernel, 'elements', { kind: 'elementsDump', ...request });
  return replies.flatMap(({ entries, count }) => split(entries, count, request)).sort();
}

function split(
  entries: Uint8Array,
  count: number,
  { shape, keyLength, dataLength }: { shape: number; keyLength: number; dataLength: number },
): string[] {
  const view = new DataView(entries.buffer, entries.byteOffset, entries.byteLength);
  const has = (part: number): boolean => (shape & part) !== 0;
  let at = 0;
  return Array.from({ length: count }, () => {
    const start = at;
    at += keyLength + (has(ElementShape.flags) ? 4 : 0) + (has(ElementShape.data) ? dataLength : 0);
    if (has(ElementShape.verdict)) at += 8 + ((view.getUint32(at + 4, true) + 3) & ~3);
    if (has(ElementShape.comment)) at += 4 + ((view.getUint32(at, true) + 3) & ~3);
    return Buffer.from(entries.subarray(start, at)).toString('hex');
  });
}
