import { VERDICT } from './constants.ts';

export function printVerdict(code: number, chain: string): string {
  switch (code) {
    case VERDICT.jump:
      return `jump ${chain}`;
    case VERDICT.goto:
      return `goto ${chain}`;
    case VERDICT.return:
      return 'return';
    case VERDICT.accept:
      return 'accept';
    default:
      return 'drop';
  }
}

/** What follows the key of an element with this comment; empty = it has none. */
export function printComment(comment: string): string {
  return comment === '' ? '' : ` comment "${comment}"`;
}
