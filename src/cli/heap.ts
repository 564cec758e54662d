/** How V8 keeps the heap of the proxy. */
import { setFlagsFromString } from 'node:v8';

/**
 * Memory before speed. V8 keeps the pages that a full collection has freed, as many as ever were in
 * use, until a collection is meant to reduce memory, and that comes only where little is allocated:
 * under constant change never. So one large Service that changes for a while doubled what the
 * process holds, for good. Now each full collection gives pages back, and comes when the heap has
 * grown by a third. The same flag on the command line would also cut the nursery to 1 MiB, which
 * costs twice the time under churn.
 */
export function keepHeapSmall(): void {
  setFlagsFromString('--optimize-for-size');
}
