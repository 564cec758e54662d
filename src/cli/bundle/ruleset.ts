/**
 * All chains and rules of nf_tables of this network namespace, in the format of `nft list ruleset`.
 */
import type { Kernel, ReplyOf } from '../../kernel/kernel.ts';
import { VERDICT } from '../../kernel/nft/constants.ts';
import { familyWord, hookWord } from '../../kernel/nft/words.ts';
import { ruleText } from '../../kernel/rule-text.ts';

type Chain = ReplyOf<'chain'>;
type RuleRecord = ReplyOf<'rule'>;

const noHook = 0xffffffff;
/** Mode iptables has several rules for each Service. */
const rulesMax = 20_000;
const everything = { family: 0, table: '', chain: '' } as const;

/** Without elements of sets, of which there are as many as Services. Rejects with KernelError. */
export async function rulesetText(kernel: Kernel): Promise<string> {
  const { records } = await kernel.dump({ kind: 'chainsDump', family: 0, table: '' });
  const chains = records.filter((one) => one.kind === 'chain');
  const rules = new Map<string, RuleRecord[]>();
  let count = 0;
  await kernel.dump({ kind: 'rulesDump', ...everything }, (one) => {
    count += 1;
    if (one.kind !== 'rule' || count > rulesMax) return;
    const known = rules.get(keyOf(one));
    if (known === undefined) rules.set(keyOf(one), [one]);
    else known.push(one);
  });
  const tables = Map.groupBy(chains, ({ family, table }) => `${familyWord(family)} ${table}`);
  const texts = Array.from(tables, ([name, of]) => {
    const body = of.flatMap((chain) => chainLines(chain, rules.get(keyOf(chain)) ?? []));
    return `table ${name} {\n${body.map((line) => `  ${line}\n`).join('')}}\n`;
  });
  const cut = count > rulesMax ? `# ${count - rulesMax} more rules\n` : '';
  return texts.join('') + cut;
}

function chainLines(chain: Chain, rules: readonly RuleRecord[]): string[] {
  const { family, hook, policy, priority, type } = chain;
  const verdict = policy === VERDICT.drop ? 'drop' : 'accept';
  const base = `type ${type} hook ${hookWord(family, hook)} priority ${priority}; policy ${verdict};`;
  return [
    `chain ${chain.chain} {`,
    ...(hook === noHook ? [] : [`  ${base}`]),
    ...rules.map((rule) => `  ${lineOf(rule)}`),
    '}',
  ];
}

function lineOf({ comment, expressions, family }: RuleRecord): string {
  const text = ruleText(family, expressions);
  return comment === '' ? text : `${text} comment "${comment}"`;
}

function keyOf({ chain, family, table }: Pick<Chain, 'chain' | 'family' | 'table'>): string {
  return `${family} ${table} ${chain}`;
}
