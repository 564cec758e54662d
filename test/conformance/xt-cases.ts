/** What nf_tables does with matches and targets of iptables, and with rules among others. */
import { NF_INET, NFPROTO } from '../../src/kernel/nft/constants.ts';
import { keepPolicy, type NftOp } from '../../src/kernel/ops.ts';
import { compileRule } from '../../src/kernel/xt/compile.ts';
import { comment } from '../../src/kernel/xt/matches/comment.ts';
import { anyPort } from '../../src/kernel/xt/matches/port.ts';
import type { XtRule } from '../../src/kernel/xt/rule.ts';
import type { XtTable } from '../../src/kernel/xt/tables.ts';
import { dnat } from '../../src/kernel/xt/targets/dnat.ts';
import { orMark } from '../../src/kernel/xt/targets/mark.ts';
import { masquerade } from '../../src/kernel/xt/targets/masquerade.ts';
import { reject } from '../../src/kernel/xt/targets/reject.ts';
import { accept, drop, jump } from '../../src/kernel/xt/targets/verdict.ts';
import { parseAddress } from '../../src/net/address.ts';
import { type Case, caseOf, type Step } from './nft-cases.ts';
import { rule as expressionsOf } from './ops.ts';

const family = NFPROTO.IPv4;

function table(name: XtTable, ...chains: readonly string[]): NftOp[] {
  const inTable = { family, table: name };
  return [
    { kind: 'tableAdd', ...inTable, comment: '' },
    ...chains.map((chain): NftOp => ({ kind: 'chainAdd', ...inTable, chain, comment: '' })),
  ];
}

function base(name: XtTable, chain: string, hook: number, policy = keepPolicy): NftOp {
  const [type, priority] = name === 'nat' ? ['nat', 100] : ['filter', 0];
  const fields = { type, hook, priority, policy, comment: '' } as const;
  return { kind: 'baseChainAdd', family, table: name, chain, ...fields };
}

/** `place`: `nat chain`. */
function add(place: string, rule: XtRule, position = 0): NftOp {
  const [name = '', chain = ''] = place.split(' ');
  const fields = { table: name, chain, position, echo: 0 };
  return { kind: 'xtRuleAdd', family, ...fields, ...compileRule('IPv4', rule) };
}

function insert(place: string, rule: XtRule, position = 0): NftOp {
  return { ...add(place, rule, position), kind: 'xtRuleInsert' } as NftOp;
}

function raw(kind: 'match' | 'target', name: string, revision: number, bytes: number): NftOp {
  const expressions = expressionsOf({ kind, name, revision, info: new Uint8Array(bytes) });
  return { ...add('filter c', {}), expressions } as NftOp;
}

const ok = (...ops: readonly NftOp[]): Step => ({ ops, outcome: 'applied' });
const refused = (outcome: readonly string[], ...ops: readonly NftOp[]): Step => ({ ops, outcome });

const note = (text: string): XtRule => ({ matches: [comment(text)] });
const toEndpoint = dnat(parseAddress('10.0.0.1')!, 80);

export const xtStories: readonly Case[] = [
  caseOf('puts rules behind and in front of others', [
    ok(...table('filter', 'c'), add('filter c', note('a')), add('filter c', note('b'))),
    ok(add('filter c', note('d')), insert('filter c', note('0'))),
    {
      ops: ({ handles: [, a, , d] }) => [
        add('filter c', note('after a'), a),
        insert('filter c', note('before d'), d),
      ],
      outcome: 'applied',
    },
    {
      ops: ({ handles: [first] }) => [
        add('filter c', note('lost'), 4711),
        {
          kind: 'ruleDelete',
          echo: 0,
          family,
          table: 'filter',
          chain: 'c',
          handle: first as number,
        },
      ],
      outcome: ['ENOENT at 0'],
    },
  ]),
  caseOf('keeps the policy of a base chain that is there, and accepts in a new one', [
    ok(...table('filter'), base('filter', 'FORWARD', NF_INET.FORWARD, 0)),
    ok(base('filter', 'FORWARD', NF_INET.FORWARD), base('filter', 'INPUT', NF_INET.LOCAL_IN)),
  ]),
  caseOf('knows matches and targets by name, revision and size', [
    ok(...table('filter', 'c')),
    refused(['ENOENT at 0'], raw('match', 'no-such-match', 0, 8)),
    refused(['ENOENT at 0'], raw('target', 'NO-SUCH-TARGET', 0, 8)),
    refused(['ENOENT at 0'], raw('match', 'comment', 7, 256)),
    refused(['EINVAL at 0'], raw('match', 'comment', 0, 248)),
    refused(['EINVAL at 0'], raw('match', 'comment', 0, 264)),
    refused(['EINVAL at 0'], { ...raw('match', 'tcp', 0, 16), protocol: 17 } as NftOp),
    ok({ ...raw('match', 'tcp', 0, 16), protocol: 6 } as NftOp),
    refused(['EINVAL at 0'], raw('target', 'DNAT', 2, 48)),
  ]),
  caseOf('binds targets to their tables', [
    ok(...table('filter', 'c'), ...table('nat', 'c')),
    refused(['EINVAL at 0'], add('filter c', { protocol: 'TCP', target: toEndpoint })),
    refused(['EINVAL at 0'], add('filter c', { target: masquerade })),
    refused(['EINVAL at 0'], add('nat c', { target: reject })),
    ok(
      add('nat c', { protocol: 'TCP', matches: [anyPort], target: toEndpoint }),
      add('nat c', { target: masquerade }),
      add('nat c', { target: orMark(1) }),
      add('filter c', { target: reject }),
      add('filter c', { target: accept }),
      add('filter c', { target: drop }),
    ),
  ]),
  caseOf('lets no packet meet a translation where there is none', [
    ok(
      ...table('nat', 'd', 's'),
      base('nat', 'in', NF_INET.LOCAL_IN),
      base('nat', 'out', NF_INET.LOCAL_OUT),
      base('nat', 'post', NF_INET.POST_ROUTING),
      add('nat d', { protocol: 'TCP', target: toEndpoint }),
      add('nat s', { target: masquerade }),
    ),
    refused(['EINVAL at 0'], add('nat post', { target: jump('d') })),
    refused(
      ['EINVAL at 1'],
      add('nat out', { target: jump('d') }),
      add('nat out', { target: jump('s') }),
    ),
    ok(add('nat post', { target: jump('s') }), add('nat out', { target: jump('d') })),
    refused(['EINVAL at 0'], add('nat in', { target: jump('s') })),
    refused(['EINVAL at 0'], add('nat out', { target: masquerade })),
    refused(['EINVAL at 0'], add('nat in', { protocol: 'TCP', target: toEndpoint })),
  ]),
];
