/** Annotations that say what becomes of endpoints that do not answer. */
import { type Detection, type DetectionMode, detectionModes } from '../../state/detection.ts';
import { annotationField } from './annotations.ts';
import { type FieldReader, type RawObject, show } from './field-reader.ts';
import { failureDetectionAnnotation, probeAnnotation } from './names.ts';

/** What a Service asks for; undefined: nothing. A value that is not understood asks for nothing. */
export function decodeDetection(
  fields: FieldReader,
  annotations: RawObject | undefined,
): Detection | undefined {
  if (annotations === undefined) return undefined;
  const mode = choice(fields, annotations, failureDetectionAnnotation, detectionModes);
  const probe = choice(fields, annotations, probeAnnotation, ['tcp']);
  if (mode === undefined && probe === undefined) return undefined;
  return detections[mode ?? 'unsaid'][probe === undefined ? 0 : 1];
}

function choice<Value extends string>(
  fields: FieldReader,
  annotations: RawObject,
  name: string,
  allowed: readonly Value[],
): Value | undefined {
  const value = annotations[name];
  if (value === undefined) return undefined;
  const found = allowed.find((one) => one === value);
  if (found !== undefined) return found;
  const reason = `must be ${allowed.join(', ')}, is ${show(value)}`;
  return fields.refuse(annotationField(name), reason);
}

type Pair = readonly [Detection, Detection];

function pair(mode: DetectionMode | undefined): Pair {
  return [
    { mode, probes: false },
    { mode, probes: true },
  ];
}

/** Equal ones are one object. */
const detections: Readonly<Record<DetectionMode | 'unsaid', Pair>> = {
  off: pair('off'),
  observe: pair('observe'),
  eject: pair('eject'),
  unsaid: pair(undefined),
};
