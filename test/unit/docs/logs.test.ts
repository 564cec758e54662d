/** docs/logs.md lists every message that the program logs, with its level. */
import { globSync, readFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { type LoggedMessage, logMessages } from '../../../scripts/log-messages.ts';

/** A call of a method of a logger, as far as the text of a source file shows it. */
interface Call {
  readonly file: string;
  /** Undefined: chosen while running. */
  readonly level: string | undefined;
  readonly messages: readonly string[];
}

const call = /(?:log|loggerTo\([^;]*?\))(?:\.(trace|debug|info|warn|error|fatal)|\[level\])\(/g;
const literal = /'([A-Z][^'\n]+)'|"([A-Z][^"\n]+)"|`([A-Z][^`]+)`/g;

function callsIn(file: string): Call[] {
  const text = readFileSync(file, 'utf8');
  return [...text.matchAll(call)].map((found) => {
    const args = argumentsAt(text, found.index + found[0].length);
    const constant = /, (\w+),?\s*$/.exec(args)?.[1];
    const defined = constant && new RegExp(`const ${constant} =\\s+([^;]+);`).exec(text)?.[1];
    const messages = [...(defined || args).matchAll(literal)].map(([, a, b, c]) =>
      (a ?? b ?? c!).replace(/\$\{.*?\}/, '…'),
    );
    return { file, level: found[1], messages };
  });
}

function argumentsAt(text: string, start: number): string {
  let end = start;
  for (let depth = 1; depth > 0; end += 1) {
    if (text[end] === '(') depth += 1;
    if (text[end] === ')') depth -= 1;
  }
  return text.slice(start, end - 1);
}

const files = globSync('src/**/*.ts');
const calls = files.flatMap(callsIn);

it('docs/logs.md has each message of the log with its level', () => {
  expect(calls.length).toBeGreaterThan(80);
  const missing = calls.flatMap(({ file, level, messages }) =>
    messages
      .filter((message) => {
        const row = logMessages.find((one) => one.message === message);
        return !row || (level !== undefined && !row.levels.some((one) => one === level));
      })
      .map((message) => `${file}: ${level ?? 'some level'}: ${message}`),
  );
  expect(missing).toEqual([]);
});

it('docs/logs.md has no message that the program does not log', () => {
  const source = files.map((file) => readFileSync(file, 'utf8')).join('\n');
  const unused = logMessages
    .map(({ message }) => message)
    .filter((message) => message.split('…').some((part) => !source.includes(part)));
  expect(unused).toEqual([]);
});

it('messages of the log are short constant sentences without a comma splice', () => {
  const odd = logMessages
    .map(({ message }) => message)
    .filter(
      (message) => message.length > 80 || !/^[A-Zk]/.test(message) || /, (is|are)\b/.test(message),
    );
  expect(odd).toEqual([]);
});

it('a test that waits for a message which is not in the table does not compile', () => {
  const logged: LoggedMessage = 'Using fast path';
  // @ts-expect-error: not a message of the table.
  const renamed: LoggedMessage = 'Fast path is in use';
  const messages = logMessages.map(({ message }) => message);
  expect([messages.includes(logged), messages.includes(renamed)]).toEqual([true, false]);
});

it('links of docs/logs.md point to sections that exist', () => {
  const runbook = readFileSync('docs/runbook.md', 'utf8');
  const sections = [...runbook.matchAll(/^## (.+)$/gm)].map(([, title]) =>
    title!.toLowerCase().replaceAll(' ', '-'),
  );
  const links = logMessages.flatMap(({ action }) =>
    [...action.matchAll(/\(runbook\.md#([\w-]+)\)/g)].map(([, anchor]) => anchor!),
  );
  expect(links.length).toBeGreaterThan(5);
  expect(links.filter((anchor) => !sections.includes(anchor))).toEqual([]);
});
