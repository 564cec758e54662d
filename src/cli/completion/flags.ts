/** What shells are told of flags; deprecated ones work, and are not offered. */
import type { FlagSpec } from '../../config/flag-spec.ts';
import { type FlagName, flagNames, flagTable } from '../../config/flag-table.ts';
import { bareValue } from '../../config/flag-types.ts';
import { flagMeaning } from '../../config/flags.ts';

export interface OfferedFlag {
  readonly name: FlagName;
  readonly shorthand: string | undefined;
  /** The first sentence of what it means. */
  readonly meaning: string;
  /** Whether a value must follow. */
  readonly takesValue: boolean;
  readonly offers: NonNullable<FlagSpec['offers']>;
}

export function offeredFlags(): OfferedFlag[] {
  return flagNames.flatMap((name) => {
    const spec = flagTable[name];
    if (spec.deprecated !== undefined) return [];
    return [
      {
        name,
        shorthand: spec.shorthand,
        meaning: flagMeaning(spec).split(/[.;:](?: |$)/, 1)[0]!,
        takesValue: bareValue(spec) === undefined,
        offers: spec.offers ?? [],
      },
    ];
  });
}
