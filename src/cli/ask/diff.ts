/** `fairlead diff`: how the kernel differs from what is in force. */
import type { Diff } from '../../ask/difference.ts';
import { printable } from '../../serve/printable.ts';
import { asking } from './command.ts';

export const run = asking<'diff'>({
  question: 'diff',
  query: () => ({}),
  isHealthy: ({ healthy }) => healthy,
  print: ({ families, setAside, stale }, { wide }) => {
    const what =
      setAside === 1
        ? '1 Service port: fairlead status names it'
        : `${setAside} Service ports: fairlead status names them`;
    const aside = setAside > 0 ? [`The kernel refuses ${what}.\n`] : [];
    const programs =
      stale.length > 0
        ? [`Connect-time programs of an earlier process are attached: ${stale.join(' ')}.\n`]
        : [];
    return [...families.map((one) => familyText(one, wide)), ...aside, ...programs].join('\n');
  },
});

type Family = Diff['families'][number];

function familyText(family: Family, wide: boolean): string {
  const { compared, differenceCount, differences, leftOut, waiting } = family;
  const counts = [
    `${compared} Service ports compared`,
    ...(leftOut > 0 ? [`${leftOut} left out that changed meanwhile`] : []),
    ...(waiting > 0 ? [`${waiting} Services waiting to be written`] : []),
    differenceCount === 0 ? 'no differences' : `${differenceCount} differ`,
  ];
  const lines = differences.flatMap((one) => differenceLines(one, wide));
  const more =
    differenceCount > differences.length
      ? [`and ${differenceCount - differences.length} more`]
      : [];
  return [`${family.family}: ${counts.join(', ')}`, ...lines, ...more]
    .map((line) => `${printable(line)}\n`)
    .join('');
}

const shortMax = 5;

function differenceLines(
  { missing, repairs, service, unwanted, wrong }: Family['differences'][number],
  wide: boolean,
): string[] {
  const port = service?.port ? `:${service.port}` : '';
  const who =
    service === undefined
      ? 'no Service'
      : `${service.namespace}/${service.name}${port} ${service.protocol}`;
  const kinds = Object.entries({ missing, wrong, unwanted }).flatMap(([kind, count]) =>
    count > 0 ? [`${count} ${kind}`] : [],
  );
  const shown = wide ? repairs : repairs.slice(0, shortMax);
  const more = repairs.length > shown.length ? ['    …'] : [];
  return [
    `  ${who}: ${kinds.join(', ')}; right would be:`,
    ...shown.map((text) => `    ${text}`),
    ...more,
  ];
}
