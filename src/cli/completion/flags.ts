/** What shells are told of flags; deprecated ones work, and are not offered. */
import { flagMeaning } from '../../config/flags.ts';
import { flagKeys, settingTable } from '../../config/settings/index.ts';
import type { Setting } from '../../config/settings/spec.ts';
import { bareValue } from '../../config/types.ts';

export interface OfferedFlag {
  readonly name: string;
  readonly shorthand: string | undefined;
  /** The first sentence of what it means. */
  readonly meaning: string;
  /** Whether a value must follow. */
  readonly takesValue: boolean;
  readonly offers: NonNullable<Setting['offers']>;
}

export function offeredFlags(): OfferedFlag[] {
  return [...flagKeys].flatMap(([name, key]) => {
    const spec = settingTable[key];
    if (spec.deprecated !== undefined) return [];
    return [
      {
        name,
        shorthand: spec.shorthand,
        meaning: flagMeaning(key).split(/[.;:](?: |$)/, 1)[0]!,
        takesValue: bareValue(spec) === undefined,
        offers: spec.offers ?? [],
      },
    ];
  });
}
