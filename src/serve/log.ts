/** Logs: JSON lines for machines, short lines for people at a terminal. */
import { type DestinationStream, destination, type Logger, pino } from 'pino';
import type { LoggingConfig } from '../config/config.ts';

export type { Logger };

/** To stderr. Written at once: what was logged before a crash must be there. */
export function createLogger(config: LoggingConfig): Logger {
  const stderr = destination({ fd: 2, sync: true });
  const readable = process.stderr.isTTY && config.format === 'text';
  return loggerTo(readable ? readableStream(stderr) : stderr, config.verbosity);
}

/** `verbosity` is klog's: 0 says what operators need, 2 each sync, 4 and more everything. */
export function loggerTo(stream: DestinationStream, verbosity: number): Logger {
  const options = {
    level: levelOf(verbosity),
    base: null,
    timestamp: () => `,"time":"${new Date().toISOString()}"`,
    formatters: { level: (label: string) => ({ level: label }) },
  };
  return pino(options, stream);
}

/** Changes how much is logged from now on. */
export function setVerbosity(log: Logger, verbosity: number): void {
  log.level = levelOf(verbosity);
}

function levelOf(verbosity: number): string {
  return verbosity >= 4 ? 'trace' : verbosity >= 2 ? 'debug' : 'info';
}

/** `12:00:00.123 warn  Service is refused by the kernel service=default/web err=…` */
export function readableStream(out: DestinationStream): DestinationStream {
  return {
    write: (line) => {
      const { level, time, msg, ...rest } = JSON.parse(line) as Record<string, unknown>;
      const words = [String(time).slice(11, 23), String(level).padEnd(5), String(msg)];
      for (const [key, value] of Object.entries(rest)) {
        words.push(`${key}=${typeof value === 'string' ? value : JSON.stringify(value)}`);
      }
      out.write(`${words.join(' ')}\n`);
    },
  };
}
