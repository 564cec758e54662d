/** Tables, chains, rules and sets: written through the Kernel, read back by it and by nft(8). */
import { expect, test } from 'vitest';
import type { Kernel } from '../../src/kernel/kernel.ts';
import {
  concatBytes,
  concatType,
  NF_INET,
  NFPROTO,
  NFT_CHAIN_BINDING,
  NFT_DATA_VERDICT,
  NFT_SET,
} from '../../src/kernel/nft/constants.ts';
import { isDesiredSet } from '../../src/kernel/nft/sets.ts';
import { type NftOp, unknownIndex } from '../../src/kernel/ops.ts';
import { generationOfOthers } from '../../src/kernel/steady.ts';
import { createKernel, type Namespace } from './namespace.ts';
import { addressSet, applied, dumped, readRule, rule } from './ops.ts';

const table = { family: NFPROTO.IPv4, table: 't' } as const;
const addTable: NftOp = { kind: 'tableAdd', ...table, comment: '' };

function ruleWith(code: number): Uint8Array {
  return rule({ kind: 'counter' }, { kind: 'immediateVerdict', code, chain: '' });
}

/** The codes of the verdicts of a chain's rules, in order. */
async function verdicts(kernel: Kernel, chain: string): Promise<(number | undefined)[]> {
  const rules = await dumped(kernel, 'rule', { kind: 'rulesDump', ...table, chain });
  const all = [0, 1, -5];
  return rules.map(({ expressions }) =>
    all.find((code) => Buffer.compare(expressions, ruleWith(code)) === 0),
  );
}

/** The objects of one kind in nft's JSON listing. */
async function listed(namespace: Namespace, kind: string): Promise<Record<string, unknown>[]> {
  const text = await namespace.run('nft', ['-j', 'list', 'ruleset']);
  const { nftables } = JSON.parse(text) as { nftables: Record<string, Record<string, unknown>>[] };
  return nftables.flatMap((entry) => (entry[kind] === undefined ? [] : [entry[kind]]));
}

test('an empty namespace has no objects, and its generation counts commits', async () => {
  const { kernel, namespace } = await createKernel();
  expect(await dumped(kernel, 'table', { kind: 'tablesDump', family: 0 })).toEqual([]);
  const before = await kernel.generation();
  await applied(kernel, addTable);
  expect(await kernel.generation()).toBe(before + 1);
  await namespace.run('nft', ['add', 'table', 'ip6', 'u']);
  expect(await kernel.generation()).toBe(before + 2);
});

test('the generation of others is the same while our commits are under way', async () => {
  const { kernel } = await createKernel();
  await applied(kernel, addTable);
  const before = await generationOfOthers(kernel);
  const found = Array.from({ length: 100 }, (_, i) => {
    const chain = { kind: 'chainAdd', ...table, chain: `c${i}`, comment: '' } as const;
    return [applied(kernel, chain), generationOfOthers(kernel)] as const;
  });
  for (const [ours, others] of found) {
    await ours;
    expect(await others).toBe(before);
  }
});

test('tables of several families, with comments', async () => {
  const { kernel, namespace } = await createKernel();
  await applied(
    kernel,
    { ...addTable, comment: 'the first — "täble"' } as NftOp,
    { kind: 'tableAdd', family: NFPROTO.IPv6, table: 't', comment: '' },
    { kind: 'tableAdd', family: NFPROTO.IPv6, table: 'u', comment: 'x'.repeat(253) },
  );
  const all = await dumped(kernel, 'table', { kind: 'tablesDump', family: 0 });
  expect(all.map(({ family, table, comment }) => [family, table, comment])).toEqual([
    [2, 't', 'the first — "täble"'],
    [10, 't', ''],
    [10, 'u', 'x'.repeat(253)],
  ]);
  const ipv6 = await dumped(kernel, 'table', { kind: 'tablesDump', family: NFPROTO.IPv6 });
  expect(ipv6).toEqual(all.slice(1));
  expect(await namespace.run('nft', ['list', 'ruleset'])).toContain(
    'comment "the first — "täble""',
  );

  await applied(kernel, { kind: 'tableDelete', family: NFPROTO.IPv6, table: 't' });
  expect(await listed(namespace, 'table')).toMatchObject([{ name: 't' }, { name: 'u' }]);
});

test('chains and base chains of every hook', async () => {
  const { kernel, namespace } = await createKernel();
  const base = { kind: 'baseChainAdd', ...table, type: 'filter', policy: 1, comment: '' } as const;
  await applied(
    kernel,
    addTable,
    { kind: 'chainAdd', ...table, chain: 'plain', comment: 'a chain' },
    { ...base, chain: 'in', hook: NF_INET.LOCAL_IN, priority: 0, comment: 'a base chain' },
    { ...base, chain: 'fwd', hook: NF_INET.FORWARD, priority: -5, policy: 0 },
    { ...base, chain: 'nat-pre', type: 'nat', hook: NF_INET.PRE_ROUTING, priority: -100 },
    { ...base, chain: 'nat-out', type: 'nat', hook: NF_INET.LOCAL_OUT, priority: -100 },
    { ...base, chain: 'nat-post', type: 'nat', hook: NF_INET.POST_ROUTING, priority: 100 },
  );
  const chains = await dumped(kernel, 'chain', { kind: 'chainsDump', ...table });
  const { hook: none } = chains[0]!;
  expect(
    chains.map(({ chain, type, hook, priority, policy, comment }) => {
      return [chain, type, hook, priority, policy, comment];
    }),
  ).toEqual([
    ['plain', '', none, 0, 0, 'a chain'],
    ['in', 'filter', 1, 0, 1, 'a base chain'],
    ['fwd', 'filter', 2, -5, 0, ''],
    ['nat-pre', 'nat', 0, -100, 1, ''],
    ['nat-out', 'nat', 3, -100, 1, ''],
    ['nat-post', 'nat', 4, 100, 1, ''],
  ]);
  expect(none).toBe(0xffffffff);
  expect(await listed(namespace, 'chain')).toMatchObject([
    { name: 'plain' },
    { name: 'in', hook: 'input', prio: 0, policy: 'accept' },
    { name: 'fwd', hook: 'forward', prio: -5, policy: 'drop' },
    { name: 'nat-pre', type: 'nat', hook: 'prerouting', prio: -100 },
    { name: 'nat-out', type: 'nat', hook: 'output' },
    { name: 'nat-post', type: 'nat', hook: 'postrouting', prio: 100 },
  ]);
  expect(await namespace.run('nft', ['list', 'chain', 'ip', 't', 'plain'])).toContain(
    'comment "a chain"',
  );

  await applied(kernel, { kind: 'chainDelete', ...table, chain: 'plain' });
  expect(await listed(namespace, 'chain')).toHaveLength(5);
});

test("a dump of one table's chains excludes those of others", async () => {
  const { kernel } = await createKernel();
  const other = { family: NFPROTO.IPv4, table: 'other' };
  await applied(
    kernel,
    addTable,
    { kind: 'tableAdd', ...other, comment: '' },
    { kind: 'chainAdd', ...table, chain: 'mine', comment: '' },
    { kind: 'chainAdd', ...other, chain: 'theirs', comment: '' },
  );
  const mine = await dumped(kernel, 'chain', { kind: 'chainsDump', ...table });
  expect(mine.map(({ chain }) => chain)).toEqual(['mine']);
  const all = await dumped(kernel, 'chain', { kind: 'chainsDump', family: 0, table: '' });
  expect(all.map(({ chain }) => chain)).toEqual(['mine', 'theirs']);
});

test('rules are appended, deleted and flushed', async () => {
  const { kernel, namespace } = await createKernel();
  const inChain = { ...table, chain: 'c' };
  const comment = 'why';
  await applied(
    kernel,
    addTable,
    { kind: 'chainAdd', ...inChain, comment: '' },
    { kind: 'ruleAdd', ...inChain, expressions: ruleWith(0), comment },
    { kind: 'ruleAdd', ...inChain, expressions: ruleWith(1), comment: '' },
  );
  expect(await verdicts(kernel, 'c')).toEqual([0, 1]);
  const [first] = await dumped(kernel, 'rule', { kind: 'rulesDump', ...inChain });
  expect(first).toMatchObject({ comment, expressions: ruleWith(0) });
  expect(await namespace.run('nft', ['list', 'chain', 'ip', 't', 'c'])).toContain(
    'counter packets 0 bytes 0 drop comment "why"',
  );

  await applied(kernel, { kind: 'ruleDelete', echo: 0, ...inChain, handle: first!.handle });
  expect(await verdicts(kernel, 'c')).toEqual([1]);
  await applied(kernel, { kind: 'chainFlush', ...inChain });
  expect(await verdicts(kernel, 'c')).toEqual([]);
  await applied(kernel, { kind: 'chainFlush', ...inChain });
});

const anySet = { kind: 'setAdd', ...table, ...addressSet } as const;
const frontendParts = ['ipv4_addr', 'inet_proto', 'inet_service'] as const;
const backendParts = ['ipv4_addr', 'inet_service'] as const;
const frontendKey = { keyType: concatType(frontendParts), keyLength: concatBytes(frontendParts) };

test.each<readonly [string, Extract<NftOp, { kind: 'setAdd' }>, string]>([
  ['a set', { ...anySet, set: 's', comment: 'some addresses' }, 'type ipv4_addr'],
  [
    'a set with timeout, size and dynamic flag',
    {
      ...anySet,
      set: 's',
      flags: NFT_SET.TIMEOUT | NFT_SET.EVAL,
      timeoutMs: 10_800_000,
      size: 65_535,
    },
    'timeout 3h',
  ],
  ['an interval set', { ...anySet, set: 's', flags: NFT_SET.INTERVAL }, 'flags interval'],
  [
    'a data map',
    {
      ...anySet,
      set: 's',
      ...frontendKey,
      flags: NFT_SET.MAP,
      dataType: concatType(backendParts),
      dataLength: concatBytes(backendParts),
      comment: 'a map',
    },
    'type ipv4_addr . inet_proto . inet_service : ipv4_addr . inet_service',
  ],
  [
    'a verdict map',
    { ...anySet, set: 's', ...frontendKey, flags: NFT_SET.MAP, dataType: NFT_DATA_VERDICT },
    'type ipv4_addr . inet_proto . inet_service : verdict',
  ],
])('%s reads back with its shape, and nft knows its type', async (_, op, type) => {
  const { kernel, namespace } = await createKernel();
  await applied(kernel, addTable, op);
  const [set] = await dumped(kernel, 'set', { kind: 'setsDump', ...table });
  const { kind, ...shape } = op;
  const [handle, count] = [expect.any(Number), expect.toBeOneOf([0, unknownIndex])] as number[];
  const asUsual = { policy: 0, gcIntervalMs: 0 };
  expect(set).toEqual({ ...shape, kind: 'set', handle, count, ...asUsual });
  const listing = await namespace.run('nft', ['list', 'ruleset']);
  expect(listing).toContain(type);
  if (op.comment !== '') expect(listing).toContain(`comment "${op.comment}"`);
  await namespace.run('nft', ['-j', 'list', 'ruleset']);

  await applied(kernel, { kind: 'setDelete', ...table, set: 's' });
  expect(await dumped(kernel, 'set', { kind: 'setsDump', ...table })).toEqual([]);
});

test('a whole table is written, read and deleted in one transaction each', async () => {
  const { kernel, namespace } = await createKernel();
  await applied(
    kernel,
    addTable,
    { ...anySet, set: 's' },
    { kind: 'chainAdd', ...table, chain: 'c', comment: '' },
    { kind: 'ruleAdd', ...table, chain: 'c', expressions: ruleWith(0), comment: '' },
  );
  await applied(kernel, { kind: 'tableDelete', ...table });
  expect(await namespace.run('nft', ['list', 'ruleset'])).toBe('');
});

test.each<Parameters<Kernel['dump']>[0]>([
  { kind: 'chainsDump', ...table },
  { kind: 'rulesDump', ...table, chain: '' },
  { kind: 'rulesDump', ...table, chain: 'c' },
  { kind: 'setsDump', ...table },
  { kind: 'elementsDump', ...table, set: 's', shape: 0, keyLength: 4, dataLength: 0 },
])('a dump of missing objects has no records: $kind', async (request) => {
  const { kernel } = await createKernel();
  expect(await kernel.dump(request)).toEqual({ records: [], consistent: true });
});

test('a table of another owner with unused features can be read', async () => {
  const { kernel, namespace } = await createKernel();
  const ruleset = `
    table inet theirs {
      flags dormant
      comment "not ours"
      set s { type ipv4_addr; flags interval,timeout; timeout 90s; gc-interval 10s; }
      counter seen { }
      chain input {
        type filter hook input priority -10; policy drop;
        ct state { established, related } counter accept
        meta l4proto { tcp, udp } th dport 53 limit rate 10/second log prefix "dns " accept
      }
    }`;
  await namespace.run('nft', ['-f', '-'], ruleset);
  const inet = { family: 1, table: 'theirs' };
  const [theirs] = await dumped(kernel, 'table', { kind: 'tablesDump', family: 0 });
  expect(theirs).toMatchObject({ ...inet, comment: 'not ours', flags: 1 });
  const rules = await dumped(kernel, 'rule', { kind: 'rulesDump', ...inet, chain: '' });
  expect(rules.map(({ expressions }) => kinds(expressions))).toEqual([
    ['ctLoad', 'lookup', 'counter', 'immediateVerdict'],
    ['metaLoad', 'lookup', 'payload', 'cmp', 'limit', 'unknown log', 'immediateVerdict'],
  ]);
  const sets = await dumped(kernel, 'set', { kind: 'setsDump', ...inet });
  expect(sets.find(({ set }) => set === 's')).toMatchObject({ timeoutMs: 90_000 });
});

function kinds(expressions: Uint8Array): string[] {
  return readRule(expressions).map((each) =>
    each.kind === 'unknown' ? `unknown ${each.name}` : each.kind,
  );
}

test('a set that another program created is read with its policy and gc interval', async () => {
  const { kernel, namespace } = await createKernel();
  await applied(kernel, addTable);
  const words = 'type ipv4_addr ; flags timeout ; gc-interval 1h ; policy memory ;';
  await namespace.run('nft', ['add', 'set', 'ip', 't', 's', `{ ${words} }`]);
  const [set] = await dumped(kernel, 'set', { kind: 'setsDump', ...table });
  expect(set).toMatchObject({ policy: 1, gcIntervalMs: 3_600_000 });
  const asOurs = { ...anySet, set: 's', flags: NFT_SET.TIMEOUT };
  expect(isDesiredSet(set!, asOurs)).toBe(false);
  expect(isDesiredSet({ ...set!, policy: 0 }, asOurs)).toBe(false);
  expect(isDesiredSet({ ...set!, gcIntervalMs: 0 }, asOurs)).toBe(false);
  expect(isDesiredSet({ ...set!, policy: 0, gcIntervalMs: 0 }, asOurs)).toBe(true);
});

test('a chain that is deleted with its rule is recognised by its flags', async () => {
  const { kernel, namespace } = await createKernel();
  await applied(kernel, addTable, { kind: 'chainAdd', ...table, chain: 'c', comment: '' });
  await namespace.run('nft', ['add', 'rule', 'ip', 't', 'c', 'jump', '{ counter ; }']);
  const chains = await dumped(kernel, 'chain', { kind: 'chainsDump', ...table });
  expect(chains.map(({ flags }) => flags)).toEqual([0, NFT_CHAIN_BINDING]);
});
