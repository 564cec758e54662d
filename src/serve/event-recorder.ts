import { EventRecorder, type EventRecorderOptions } from '../source/kubernetes/events.ts';
import type { Logger } from './log.ts';
import type { LifecycleMetrics } from './metrics.ts';

interface RecorderOptions {
  readonly log: Logger;
  readonly nodeName: string;
  /** Undefined = create no events. */
  readonly openEvents?: EventRecorderOptions['open'];
}

/** Sends events to the API server, if enabled. */
export function makeRecorder(
  { log, nodeName, openEvents }: RecorderOptions,
  metrics: LifecycleMetrics,
): EventRecorder | undefined {
  if (openEvents === undefined) return undefined;
  return new EventRecorder({
    open: openEvents,
    nodeName,
    dropped: (reason) => metrics.eventDropped(reason),
    problem: (error) => log.warn({ err: error.message }, 'Could not send Events to the API server'),
  });
}
