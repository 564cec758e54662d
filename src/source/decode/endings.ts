/** Annotations that say what becomes of connections whose endpoint has gone. */
import { type Endings, removalMs } from '../../state/endings.ts';
import { annotationField, durationMs } from './annotations.ts';
import { type FieldReader, type RawObject, show } from './field-reader.ts';
import { endConnectionsAnnotation, udpFlowsAnnotation } from './names.ts';

const [leastMs, mostMs] = [1000, 3_600_000];

/** What a Service asks for. A value that is not understood asks for nothing. */
export function decodeEndings(
  fields: FieldReader,
  annotations: RawObject | undefined,
): Endings | undefined {
  if (annotations === undefined) return undefined;
  const endAfterMs = decodeEnd(fields, annotations[endConnectionsAnnotation]);
  const flows = annotations[udpFlowsAnnotation];
  const keepsFlows = flows === 'keep-while-serving';
  if (flows !== undefined && !keepsFlows) {
    const reason = `must be keep-while-serving, is ${show(flows)}`;
    fields.refuse(annotationField(udpFlowsAnnotation), reason);
  }
  if (endAfterMs === undefined && !keepsFlows) return undefined;
  return {
    ...(endAfterMs === undefined ? {} : { endAfterMs }),
    ...(keepsFlows ? { keepsFlows } : {}),
  };
}

function decodeEnd(fields: FieldReader, value: unknown): number | undefined {
  if (value === undefined || value === 'never') return undefined;
  if (value === 'on-removal') return removalMs;
  const [, duration] = (typeof value === 'string' && /^after:(.*)$/.exec(value)) || [];
  const ms = durationMs(duration);
  if (ms >= leastMs && ms <= mostMs) return ms;
  const allowed = 'never, on-removal, or after: with a duration from 1s to 1h';
  const reason = `must be ${allowed}, is ${show(value)}`;
  return fields.refuse(annotationField(endConnectionsAnnotation), reason);
}
