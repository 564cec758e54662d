/** Messages at the end of the process, and messages of Node itself. */

import type { LogFormat } from '../config/config.ts';
import { type LineWriter, loadAddon } from '../kernel/addon.ts';
import { isText, type Logger, loggerTo } from '../serve/log.ts';
import { printableText } from '../serve/printable.ts';
import { terminal } from './terminal.ts';

const stderrFd = 2;
const longestMs = 1000;

/**
 * Writes to standard error. `process.stderr` would wait for a pipe that no process reads, and the
 * process would never end.
 */
export function complain(text: string): void {
  const writer = openWriter();
  if (writer === undefined) {
    terminal.stderr.write(text);
    return;
  }
  writer.push(printableText(text));
  writer.drain(longestMs);
}

/** Reports why the process ends: as a line of its log if that is JSON, otherwise as `text`. */
export function complainInLog(format: LogFormat, text: string, err: string): void {
  if (isText(format)) complain(text);
  else loggerTo({ write: complain }, 0).fatal({ err }, 'Exiting');
}

/** Undefined if the addon does not load, which is then the error to report. */
function openWriter(): LineWriter | undefined {
  try {
    const { LineWriter } = loadAddon();
    return new LineWriter(stderrFd);
  } catch {
    return undefined;
  }
}

/**
 * Logs warnings of Node and uncaught errors, and flushes the log at the end. Node itself would
 * write them to standard error, and wait.
 */
export function logForNode(log: Logger, flush: () => void): void {
  process.removeAllListeners('warning');
  process.on('warning', ({ name, message }) =>
    log.warn({ name, err: message }, 'Warning from Node.js'),
  );
  process.on('uncaughtException', (error: unknown) => {
    const err = error instanceof Error ? error.stack : String(error);
    log.fatal({ err }, 'Unexpected error; exiting');
    process.exit(1);
  });
  process.on('exit', flush);
}
