/** Annotations that say what becomes of connections whose endpoint has gone. */
import { type Endings, removalMs } from '../../state/endings.ts';
import { type FieldReader, type RawObject, show } from './field-reader.ts';
import { endConnectionsAnnotation, udpFlowsAnnotation } from './names.ts';

const [leastMs, mostMs] = [1000, 3_600_000];
const units = { s: 1000, m: 60_000, h: 3_600_000 } as const;

/** What a Service asks for. A value that is not understood asks for nothing. */
export function decodeEndings(
  fields: FieldReader,
  annotations: RawObject | undefined,
): Endings | undefined {
  if (annotations === undefined) return undefined;
  const endAfterMs = decodeEnd(fields, annotations[endConnectionsAnnotation]);
  const field = `metadata.annotations[${udpFlowsAnnotation}]`;
  const flows = annotations[udpFlowsAnnotation];
  const keepsFlows = flows === 'keep-while-serving';
  if (flows !== undefined && !keepsFlows) {
    fields.refuse(field, `must be keep-while-serving, is ${show(flows)}`);
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
  const [, number, unit] =
    (typeof value === 'string' && /^after:(\d{1,4})([smh])$/.exec(value)) || [];
  const ms = Number(number) * units[(unit ?? 's') as keyof typeof units];
  if (ms >= leastMs && ms <= mostMs) return ms;
  const allowed = 'never, on-removal, or after: with a duration from 1s to 1h';
  const field = `metadata.annotations[${endConnectionsAnnotation}]`;
  return fields.refuse(field, `must be ${allowed}, is ${show(value)}`);
}
