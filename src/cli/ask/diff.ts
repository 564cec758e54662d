/** `fairlead diff`: how the kernel's state differs from what is in force. */
import type { Diff } from '../../ask/difference.ts';
import { differenceWords } from '../../ask/views/difference.ts';
import { asking } from './command.ts';

export const run = asking<'diff'>({
  question: 'diff',
  query: () => ({}),
  isHealthy: ({ healthy }) => healthy,
  view: ({ families, setAside, stale }, { wide }) => {
    const what =
      setAside === 1
        ? '1 Service port: fairlead status names it'
        : `${setAside} Service ports: fairlead status names them`;
    const aside = setAside > 0 ? [{ text: `The kernel refuses ${what}.` }] : [];
    const programs =
      stale.length > 0
        ? [
            {
              text: `Connect-time programs of an earlier process are attached: ${stale.join(' ')}.`,
            },
          ]
        : [];
    return [...families.map((one) => ({ list: familyLines(one, wide) })), ...aside, ...programs];
  },
});

type Family = Diff['families'][number];

function familyLines(family: Family, wide: boolean): string[] {
  const { compared, differenceCount, differences, leftOut, waiting } = family;
  const counts = [
    `${compared} Service ports compared`,
    ...(leftOut > 0 ? [`${leftOut} left out that changed during the comparison`] : []),
    ...(waiting > 0 ? [`${waiting} Services waiting to be written`] : []),
    differenceCount === 0 ? 'no differences' : `${differenceCount} differ`,
  ];
  const lines = differences.flatMap((one) => differenceLines(one, wide));
  const more =
    differenceCount > differences.length
      ? [`and ${differenceCount - differences.length} more`]
      : [];
  return [`${family.family}: ${counts.join(', ')}`, ...lines, ...more];
}

const shortMax = 5;

function differenceLines(one: Family['differences'][number], wide: boolean): string[] {
  const { repairs } = one;
  const shown = wide ? repairs : repairs.slice(0, shortMax);
  const more = repairs.length > shown.length ? ['    …'] : [];
  return [
    `  ${differenceWords(one)}; right would be:`,
    ...shown.map((text) => `    ${text}`),
    ...more,
  ];
}
