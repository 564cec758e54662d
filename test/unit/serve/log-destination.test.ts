import { describe, expect, it, onTestFinished, vi } from 'vitest';
import type { LineWriter } from '../../../src/kernel/addon.ts';
import { leftOutNotice, loggerTo, readable } from '../../../src/serve/log.ts';
import { LogDestination } from '../../../src/serve/log-destination.ts';

/** Takes its input, and writes it when it is read. */
class SlowWriter implements LineWriter {
  readonly waiting: string[] = [];

  push(line: string): void {
    this.waiting.push(line);
  }

  pendingBytes(): number {
    return this.waiting.join('').length;
  }

  drain(): boolean {
    return this.waiting.length === 0;
  }

  /** Reads all. */
  read(): string[] {
    return this.waiting.splice(0);
  }
}

function world(pendingBytesMax?: number, format: (line: string) => string = (line) => line) {
  const writer = new SlowWriter();
  const bound = pendingBytesMax === undefined ? {} : { pendingBytesMax };
  const lines = new LogDestination({ writer, format, notice: leftOutNotice, ...bound });
  return { writer, lines, log: loggerTo(lines, 0) };
}

const messages = (lines: readonly string[]): unknown[] =>
  lines.map((line) => JSON.parse(line)).map(({ msg, count }) => count ?? msg);

describe('the log destination', () => {
  it('keeps a limited number of lines, counts the rest, and reports it when there is space', () => {
    const { writer, lines, log } = world(1000);
    for (let i = 0; i < 100; i += 1) log.info(`line ${i}`);
    expect(writer.pendingBytes()).toBeLessThanOrEqual(1000);
    const kept = writer.waiting.length;
    expect(lines.leftOut).toBe(100 - kept);
    expect(messages(writer.read())).toEqual(Array.from({ length: kept }, (_, i) => `line ${i}`));
    log.info('back');
    expect(messages(writer.read())).toEqual([100 - kept, 'back']);
    log.info('and on');
    expect(messages(writer.read())).toEqual(['and on']);
    expect(lines.leftOut).toBe(100 - kept);
  });

  it('reports many lost lines together if the reader is slow', () => {
    const { writer, lines, log } = world(1000);
    const read: string[] = [];
    for (let i = 0; i < 1000; i += 1) {
      log.info(`line ${i}`);
      if (i % 3 === 0) read.push(...writer.waiting.splice(0, 1));
    }
    read.push(...writer.read());
    log.info('last');
    read.push(...writer.read());
    const notices = read.map((line) => JSON.parse(line)).filter(({ count }) => count > 0);
    expect(notices.length).toBeLessThan(lines.leftOut / 5);
    expect(notices.reduce((sum, { count }) => sum + count, 0)).toBe(lines.leftOut);
  });

  it('reports lost lines also when no more lines are logged', () => {
    vi.useFakeTimers();
    onTestFinished(() => void vi.useRealTimers());
    const { writer, log } = world(300);
    for (let i = 0; i < 10; i += 1) log.info(`line ${i}`);
    vi.advanceTimersByTime(4000);
    const kept = messages(writer.read()).length;
    vi.advanceTimersByTime(999);
    expect(writer.waiting).toEqual([]);
    vi.advanceTimersByTime(1);
    expect(messages(writer.read())).toEqual([10 - kept]);
    vi.advanceTimersByTime(5000);
    expect(writer.waiting).toEqual([]);
    expect(vi.getTimerCount()).toBe(0);
  });

  it('always writes the line that ends the process', () => {
    const { writer, log } = world(300);
    for (let i = 0; i < 10; i += 1) log.info(`line ${i}`);
    log.fatal('the end');
    expect(messages(writer.read()).at(-1)).toBe('the end');
  });

  it('lets no name move the cursor, end a line or be invisible', () => {
    const name = 'a\u001b[2Jb\u009bc\u202ed\u2028e\u007f\nf\u{e0041}';
    const seen = 'a\\u001b[2Jb\\u009bc\\u202ed\\u2028e\\u007f\\nf\\udb40\\udc41';
    const people = world(undefined, readable);
    people.log.warn({ service: name, [name]: 1 }, 'Told');
    const text = people.writer.read()[0]!;
    expect(text).toContain(` service="${seen}" "${seen}"=1\n`);
    const machines = world();
    machines.log.warn({ service: name }, 'Told');
    const line = machines.writer.read()[0]!;
    expect(line).toMatch(/^[ -~]*\n$/);
    expect(JSON.parse(line).service).toBe(name);
  });
});
