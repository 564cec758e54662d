/** Logs JSON lines for machines, or short lines for people at a terminal. */
import { isatty } from 'node:tty';
import { type DestinationStream, type Logger, pino } from 'pino';
import type { Config, LogFormat } from '../config/config.ts';
import { loadAddon } from '../kernel/addon.ts';
import { formatPortName } from '../net/protocol.ts';
import { type ServicePortName, serviceKey } from '../state/types.ts';
import { LogDestination } from './log-destination.ts';

export type { Logger };

const stderrFd = 2;

/** A log on stderr, and the destination of its lines. */
export function createLogger(config: Config['logging']): { log: Logger; lines: LogDestination } {
  const { LineWriter } = loadAddon();
  const lines = new LogDestination({
    writer: new LineWriter(stderrFd),
    format: isText(config.format) ? readable : (line) => line,
    notice: leftOutNotice,
  });
  return { log: loggerTo(lines, config.verbosity), lines };
}

/** Whether the lines are text for people. */
export function isText(format: LogFormat): boolean {
  // Not `process.stderr.isTTY`: that makes a pipe non-blocking, which other processes share.
  return format === 'text' || (format === 'auto' && isatty(stderrFd));
}

/** The line that reports `count` lost lines. */
export function leftOutNotice(count: number): string {
  let text = '';
  const write = (line: string): void => {
    text = line;
  };
  loggerTo({ write }, 0).warn({ count }, 'Dropped log lines because nothing read them in time');
  return text;
}

/** `verbosity` is klog's: 0 logs what operators need, 2 each sync, 4 and more everything. */
export function loggerTo(stream: DestinationStream, verbosity: number): Logger {
  const options = {
    level: levelOf(verbosity),
    base: null,
    timestamp: () => `,"time":"${new Date().toISOString()}"`,
    formatters: { level: (label: string) => ({ level: label }), log: rounded },
  };
  return pino(options, stream);
}

/** The fields of a line about a Service port. */
export function portFields(servicePort: ServicePortName) {
  const { port, protocol } = servicePort;
  return { service: serviceKey(servicePort), port: formatPortName(port, protocol) };
}

/** Times with three decimal places: more are not meaningful. */
function rounded(fields: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(fields).map(([name, value]) => {
      const isTime = typeof value === 'number' && name.endsWith('Ms');
      return [name, isTime ? roundedMs(value) : value];
    }),
  );
}

function roundedMs(ms: number): number {
  return ms < 1000 ? Number(ms.toPrecision(3)) : Math.round(ms);
}

/** Changes the verbosity. */
export function setVerbosity(log: Logger, verbosity: number): void {
  log.level = levelOf(verbosity);
}

function levelOf(verbosity: number): string {
  return verbosity >= 4 ? 'trace' : verbosity >= 2 ? 'debug' : 'info';
}

/**
 * `12:00:00.123 error Kernel rejected Service port service=default/web err="…"`: a value with
 * blanks, quotes or `=`, or that is empty, is in quotes, so that it cannot pass for other fields.
 */
export function readable(line: string): string {
  const { level, time, msg, ...rest } = JSON.parse(line) as Record<string, unknown>;
  const words = [String(time).slice(11, 23), String(level).padEnd(5), String(msg)];
  for (const [key, value] of Object.entries(rest)) {
    words.push(`${plain(key)}=${plain(value)}`);
  }
  return words.join(' ');
}

function plain(value: unknown): string {
  return typeof value === 'string' && plainText.test(value) ? value : JSON.stringify(value);
}

/** Without blanks and controls, quotes and `=`. */
const plainText = /^[^\s\p{C}"'`=]+$/u;
