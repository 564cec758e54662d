/** The demo's output: with some colour on a terminal, plain text in a pipe. */
import type { WriteStream } from 'node:tty';
import { styleText } from 'node:util';
import type { BatchTimes } from './batches.ts';
import type { Outcome } from './pod.ts';

const barWidth = 40;

interface ChangeTimes extends BatchTimes {
  readonly wholeMs: number;
}

export class Page {
  readonly #out: WriteStream;

  constructor(out: WriteStream) {
    this.#out = out;
  }

  title(text: string): void {
    this.#line(this.#styled('bold', text));
  }

  heading(text: string): void {
    this.#line('');
    this.#line(this.#styled('cyan', `— ${text}`));
  }

  changes(): void {
    const cells = ['kernel', 'Fairlead', 'file watcher'].map((name) => name.padStart(14));
    this.#line(`  ${''.padEnd(34)}${cells.join('')}`);
  }

  /**
   * How long the kernel and Fairlead took. The file watcher is shown separately: it waits until the
   * file is no longer written, which the watch of an API server need not do.
   */
  change(label: string, { wholeMs, sinceChangeMs, applyMs }: ChangeTimes): void {
    const parts = [applyMs, sinceChangeMs - applyMs, wholeMs - sinceChangeMs];
    const cells = parts.map((ms) => `${Math.max(0, ms).toFixed(2)} ms`.padStart(14));
    this.#line(`  ${label.padEnd(34)}${cells.join('')}`);
  }

  /** The servers that answered, as bars; the duration; the number of failures. */
  outcome({ answers, failures, p50Us, p99Us }: Outcome): void {
    const servers = Object.entries(answers).sort(([a], [b]) => (a < b ? -1 : 1));
    const most = Math.max(...servers.map(([, answered]) => answered));
    for (const [server, answered] of servers) {
      const bar = '█'.repeat(Math.round((answered / most) * barWidth));
      this.#line(`  ${server}  ${count(answered).padStart(7)}  ${this.#styled('blue', bar)}`);
    }
    const sum = (counts: Readonly<Record<string, number>>): number =>
      Object.values(counts).reduce((all, one) => all + one, 0);
    const failed = sum(failures);
    const verdict = this.#styled(failed === 0 ? 'green' : 'red', `${count(failed)} failed`);
    const latency = `p50 ${count(p50Us)} µs, p99 ${count(p99Us)} µs`;
    this.#line(`  ${count(sum(answers) + failed)} connections, ${verdict}; ${latency}`);
    for (const [code, times] of Object.entries(failures)) this.#line(`  ${code}: ${times}`);
  }

  listing(text: string): void {
    this.#line(this.#styled('dim', text.trimEnd()));
  }

  /** A command as if typed, and its output. */
  command(words: readonly string[], printed: string): void {
    this.#line(this.#styled('bold', `  $ ${words.join(' ')}`));
    for (const line of printed.trimEnd().split('\n')) this.#line(`  ${line}`.trimEnd());
  }

  text(line: string): void {
    this.#line(`  ${line}`);
  }

  #styled(style: 'bold' | 'cyan' | 'blue' | 'green' | 'red' | 'dim', text: string): string {
    return this.#out.isTTY ? styleText(style, text) : text;
  }

  #line(text: string): void {
    this.#out.write(`${text}\n`);
  }
}

function count(value: number): string {
  return Math.round(value).toLocaleString('en');
}
