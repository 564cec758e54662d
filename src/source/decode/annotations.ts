/** What names and values of annotations have in common. */
import { isNear } from '../../net/near.ts';
import type { FieldReader, RawObject } from './field-reader.ts';
import { isOurAnnotation, serviceAnnotations, sliceAnnotations } from './names.ts';

/** The field of an annotation, as errors name it. */
export function annotationField(name: string): string {
  return `metadata.annotations[${name}]`;
}

const units: Readonly<Record<string, number>> = { s: 1000, m: 60_000, h: 3_600_000 };

/** `30s`, `5m` or `1h` in milliseconds, with at most four digits; NaN: it is something else. */
export function durationMs(text: unknown): number {
  const [, number, unit] = (typeof text === 'string' && /^(\d{1,4})([smh])$/.exec(text)) || [];
  return unit === undefined ? Number.NaN : Number(number) * units[unit]!;
}

/** Refuses annotations of ours that mean nothing at this kind of object, as misspelt ones do. */
export function refuseUnknown(
  fields: FieldReader,
  annotations: RawObject | undefined,
  kind: 'Service' | 'EndpointSlice',
): void {
  if (annotations === undefined) return;
  const known = kind === 'Service' ? serviceAnnotations : sliceAnnotations;
  for (const name of Object.keys(annotations)) {
    const at = (index: number): number => name.charCodeAt(index);
    if (!isOurAnnotation(name.length, at) || known.includes(name)) continue;
    fields.refuse(annotationField(name), `means nothing at a ${kind}${hintAt(name, kind)}`);
  }
}

function hintAt(name: string, kind: 'Service' | 'EndpointSlice'): string {
  const at = (index: number): number => name.charCodeAt(index);
  const [own, others, other] =
    kind === 'Service'
      ? [serviceAnnotations, sliceAnnotations, 'an EndpointSlice']
      : [sliceAnnotations, serviceAnnotations, 'a Service'];
  if (others.includes(name)) return `: it is for ${other}`;
  const meant = own.find((one) => isNear(name.length, at, one, 2));
  return meant === undefined ? '' : `; did you mean ${meant}?`;
}
