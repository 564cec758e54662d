/** Annotations about endpoints that do not answer. */
import { describe, expect, it } from 'vitest';
import { annotationsOf, decodeDetection } from '../../../../src/source/decode/annotations.ts';
import { FieldReader } from '../../../../src/source/decode/field-reader.ts';
import { detectionModes } from '../../../../src/state/detection.ts';

function detectionOf(annotations: Record<string, unknown> | undefined) {
  const fields = new FieldReader('Service');
  const value = decodeDetection(annotationsOf(fields, annotations, 'Service'));
  return { value, told: fields.problems.map(({ field, reason }) => `${field} ${reason}`) };
}

const detection = 'fairlead.io/failure-detection';
const probe = 'fairlead.io/probe';

describe('the failure detection of a Service', () => {
  it.each(detectionModes)('is %s where the annotation says so', (mode) => {
    expect(detectionOf({ [detection]: mode }).value).toEqual({ mode, probes: false });
    const both = detectionOf({ [detection]: mode, [probe]: 'tcp' });
    expect(both).toEqual({ value: { mode, probes: true }, told: [] });
  });

  it('may be left to the configuration, with probes', () => {
    const { value } = detectionOf({ [probe]: 'tcp' });
    expect(value).toEqual({ mode: undefined, probes: true });
  });

  it.each([
    [detection, 'on', 'must be off, observe, eject, is "on"'],
    [detection, 7, 'must be off, observe, eject, is 7'],
    [probe, 'http', 'must be tcp, is "http"'],
    [probe, '', 'must be tcp, is ""'],
  ])('is not said where %s is %j, and that is reported', (annotation, value, reason) => {
    const told = [`metadata.annotations[${annotation}] ${reason}`];
    expect(detectionOf({ [annotation]: value })).toEqual({ value: undefined, told });
  });
});
