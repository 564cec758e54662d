/** What the commands that trace packets have in common. */
import { randomBytes } from 'node:crypto';
import { hostFiles } from '../../host/files.ts';
import { interfaceNames } from '../../host/interfaces.ts';
import { routesTo } from '../../host/reach.ts';
import { isKernelError, isNotPermitted } from '../../kernel/errors.ts';
import type { Kernel } from '../../kernel/kernel.ts';
import { openKernel } from '../../kernel/native-kernel.ts';
import { thisMachine } from '../../tools/preflight/machine.ts';
import { traceTableName } from '../../tools/trace/marking-table.ts';
import { type FindFault, faultFinder } from '../../tools/trace/routing-fault.ts';
import { NoTracingError } from '../../tools/trace/tracer.ts';
import type { Io } from '../command.ts';
import { exitCodes } from '../errors.ts';

export interface Tracing {
  readonly kernel: Kernel;
  /** A second socket, which waits for events. */
  readonly events: Kernel;
  readonly table: string;
  readonly interfaceName: (index: number) => string;
  readonly findFault: FindFault;
  /** Aborts when the user interrupts the command, and by `end`. */
  readonly signal: AbortSignal;
  readonly end: () => void;
}

/** Resolves to the exit code of `act`; 1 if the kernel refuses to trace. */
export async function tracing(io: Io, act: (given: Tracing) => Promise<number>): Promise<number> {
  const [kernel, events] = [openKernel(), openKernel()];
  const ending = new AbortController();
  const end = (): void => ending.abort();
  process.once('SIGINT', end).once('SIGTERM', end);
  try {
    return await act({
      ...{ kernel, events, signal: ending.signal, end },
      table: traceTableName(randomBytes(4).toString('hex')),
      interfaceName: interfaceNames(hostFiles()),
      findFault: faultFinder({ ...thisMachine(), routesTo }),
    });
  } catch (error) {
    if (!(isKernelError(error) || error instanceof NoTracingError)) throw error;
    const hint = isNotPermitted(error) ? ': tracing needs CAP_NET_ADMIN' : '';
    io.stderr.write(`Error: ${error.message}${hint}\n`);
    return exitCodes.unhealthy;
  } finally {
    process.off('SIGINT', end).off('SIGTERM', end);
    kernel.close();
    events.close();
  }
}
