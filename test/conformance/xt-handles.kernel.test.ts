/** Rules of ours among those of others: handles, positions, and concurrent changes. */
import { expect, test } from 'vitest';
import { NFPROTO } from '../../src/kernel/nft/constants.ts';
import type { NftOp } from '../../src/kernel/ops.ts';
import { compileRule } from '../../src/kernel/xt/compile.ts';
import { comment } from '../../src/kernel/xt/matches/comment.ts';
import { jump } from '../../src/kernel/xt/targets/verdict.ts';
import { createKernel } from './namespace.ts';
import { applied, batch, dumped } from './ops.ts';

const inTable = { family: NFPROTO.IPv4, table: 'nat' } as const;
const inChain = { ...inTable, chain: 'KUBE-SERVICES' } as const;
const table: NftOp = { kind: 'tableAdd', ...inTable, comment: '' };
const chain: NftOp = { kind: 'chainAdd', ...inChain, comment: '' };

function rule(text: string, fields: { echo?: number; position?: number } = {}) {
  const compiled = compileRule('IPv4', { matches: [comment(text)], target: jump('T') });
  return { ...inChain, position: 0, echo: 0, ...compiled, ...fields };
}

const target: NftOp = { kind: 'chainAdd', ...inTable, chain: 'T', comment: '' };
const add = (...args: Parameters<typeof rule>): NftOp => ({ kind: 'xtRuleAdd', ...rule(...args) });
const insert = (...args: Parameters<typeof rule>): NftOp => {
  return { kind: 'xtRuleInsert', ...rule(...args) };
};

test('an op that requests an echo gets the handle of its rule, for any number of ops', async () => {
  const { kernel } = await createKernel();
  await applied(kernel, table, target, chain);
  // More replies than fit into the default receive buffer of a socket.
  const count = 12_000;
  const ops = Array.from({ length: count }, (_, i) =>
    i % 10 === 0 ? add('silent') : add(`rule ${i}`, { echo: 1 }),
  );
  const result = await kernel.apply(batch(...ops));
  if (result.kind === 'failed') throw new Error(JSON.stringify(result.failures));
  const rules = await dumped(kernel, 'rule', { kind: 'rulesDump', ...inChain });
  const expected = rules.flatMap(({ handle }, i): [number, number][] =>
    i % 10 === 0 ? [] : [[i, handle]],
  );
  expect(expected).toHaveLength(count * 0.9);
  expect([...(result.handles ?? [])]).toEqual(expected);
});

test('a returned handle identifies the rule: to insert behind or before it, and to delete it', async () => {
  const { kernel, namespace } = await createKernel();
  const first = await kernel.apply(batch(table, target, chain, add('a'), add('b', { echo: 1 })));
  if (first.kind === 'failed') throw new Error(JSON.stringify(first.failures));
  const position = first.handles?.get(4) as number;
  const second = await kernel.apply(
    batch(
      add('end'),
      add('behind b', { position }),
      insert('before b', { position }),
      insert('start'),
    ),
  );
  if (second.kind === 'failed') throw new Error(JSON.stringify(second.failures));
  const comments = async () =>
    [...(await namespace.run('iptables-nft-save', [])).matchAll(/--comment "?([\w ]+)"? /g)].map(
      ([, text]) => text,
    );
  expect(await comments()).toEqual(['start', 'a', 'before b', 'b', 'behind b', 'end']);
  await applied(kernel, { kind: 'ruleDelete', echo: 0, ...inChain, handle: position });
  expect(await comments()).toEqual(['start', 'a', 'before b', 'behind b', 'end']);
});

test('an op that requests an echo gets the counters of a deleted rule', async () => {
  const { kernel, namespace } = await createKernel();
  await namespace.run('iptables-nft-restore', ['--counters'], '*nat\n:C -\n[7:420] -A C\nCOMMIT\n');
  const inC = { ...inTable, chain: 'C' } as const;
  const [held] = await dumped(kernel, 'rule', { kind: 'rulesDump', ...inC });
  expect(held).toMatchObject({ packets: 7 });
  const { expressions, handle } = held!;
  const result = await kernel.apply(batch({ kind: 'ruleDelete', echo: 1, ...inC, handle }));
  if (result.kind === 'failed') throw new Error(JSON.stringify(result.failures));
  expect([...result.gone!]).toMatchObject([[0, { packets: 7, expressions }]]);
  expect(await namespace.run('iptables-nft-save', [])).not.toContain('-A C');
});

test('a refused batch leaves nothing, and returns no handles', async () => {
  const { kernel } = await createKernel();
  const ops = batch(table, target, chain, add('a', { echo: 1 }), add('b', { position: 4711 }));
  expect(await kernel.apply(ops)).toMatchObject({
    kind: 'failed',
    failures: [{ op: 4, code: 'ENOENT' }],
  });
  expect(await dumped(kernel, 'table', { kind: 'tablesDump', family: 0 })).toEqual([]);
});

test('iptables and our writes at the same time lose nothing of each other', async () => {
  const { kernel, namespace } = await createKernel();
  await applied(kernel, table, target, chain);
  const rounds = 40;
  const theirs = Array.from({ length: rounds }, (_, i) => i).reduce(
    (before, i) =>
      before.then(async () => {
        const words = ['-t', 'nat', '-A', 'PREROUTING', '-m', 'comment', '--comment', `their-${i}`];
        await namespace.run('iptables-nft', words);
      }),
    Promise.resolve(),
  );
  const ours = async (): Promise<void> => {
    for (let i = 0; i < rounds * 10; i += 1) {
      await applied(kernel, insert(`our-${i}`));
    }
  };
  await Promise.all([theirs, ours()]);
  const saved = await namespace.run('iptables-nft-save', []);
  expect(saved.match(/-A PREROUTING .*their-/g)).toHaveLength(rounds);
  expect(saved.match(/-A KUBE-SERVICES .*our-/g)).toHaveLength(rounds * 10);
});
