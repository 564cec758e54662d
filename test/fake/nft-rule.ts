/** Checks a rule's expressions, and finds what the rule refers to. */
import { NFT_SET, VERDICT } from '../../src/kernel/nft/constants.ts';
import { type Expression, expressions, noRegister } from '../../src/kernel/ops.ts';
import { readRecords } from '../../src/kernel/records.ts';
import type { NftSet, Table, Verdict } from './nft-state.ts';
import { type Compat, checkExtension } from './nft-xt.ts';
import { Refusal } from './refusal.ts';

export function readRule(bytes: Uint8Array): Expression[] {
  return [...readRecords(expressions, bytes)];
}

/** Checks that the chain of a verdict exists and is not a base chain. */
export function checkVerdict(table: Table, { code, chain }: Verdict): void {
  switch (code) {
    case VERDICT.jump:
    case VERDICT.goto: {
      const target = table.chains.get(chain);
      if (target === undefined) throw new Refusal('ENOENT');
      if (target.base !== undefined) throw new Refusal('EOPNOTSUPP');
      return;
    }
    case VERDICT.drop:
    case VERDICT.accept:
    case VERDICT.return:
      return;
    default:
      throw new Refusal('EINVAL');
  }
}

export function checkRule(table: Table, rule: readonly Expression[], compat: Compat): void {
  for (const expression of rule) checkExpression(table, expression, compat);
}

function checkExpression(table: Table, expression: Expression, compat: Compat): void {
  switch (expression.kind) {
    case 'match':
    case 'target':
      checkExtension(expression, table, compat);
      return;
    case 'immediateVerdict':
      checkVerdict(table, expression);
      return;
    case 'lookup':
      checkLookup(setOf(table, expression.set), expression);
      return;
    case 'dynset': {
      const { flags } = setOf(table, expression.set).fields;
      if ((flags & NFT_SET.EVAL) === 0) throw new Refusal('EOPNOTSUPP');
      if (expression.timeoutMs !== 0 && (flags & NFT_SET.TIMEOUT) === 0) {
        throw new Refusal('EOPNOTSUPP');
      }
      return;
    }
    case 'numgen':
      if (expression.modulus === 0) throw new Refusal('ERANGE');
      return;
    case 'hash':
      if (expression.modulus === 0) throw new Refusal('ERANGE');
      return;
    case 'unknown':
      throw new Refusal('ENOENT');
    default:
      return;
  }
}

function setOf(table: Table, name: string): NftSet {
  const set = table.sets.get(name);
  if (set === undefined) throw new Refusal('ENOENT');
  return set;
}

function checkLookup(
  { fields }: NftSet,
  { destination, flags }: Extract<Expression, { kind: 'lookup' }>,
): void {
  if (destination === noRegister) return;
  const isMap = (fields.flags & NFT_SET.MAP) !== 0;
  const isVerdictMap = isMap && fields.dataLength === 0;
  if (!isMap || flags !== 0) throw new Refusal('EINVAL');
  if (isVerdictMap !== (destination === 0)) throw new Refusal('EINVAL');
}

/** The keys of `Table.uses` in which the rule counts. */
export function referencesOf(rule: readonly Expression[]): string[] {
  const references: string[] = [];
  for (const expression of rule) {
    if (expression.kind === 'lookup' || expression.kind === 'dynset') {
      references.push(`set ${expression.set}`);
    } else if (expression.kind === 'immediateVerdict' && expression.chain !== '') {
      references.push(`chain ${expression.chain}`);
    }
  }
  return references;
}
