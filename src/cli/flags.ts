/** Flags that several commands share. */
import { parseDuration, toMs } from '../config/duration.ts';
import type { CommandFlag, Flags } from './command.ts';
import { UsageError } from './errors.ts';

const server: CommandFlag = {
  shown: 'ADDRESS:PORT',
  meaning: 'Address of the running process: its metricsBindAddress (default 127.0.0.1:10249).',
};

const config: CommandFlag = {
  shown: 'FILE',
  meaning: 'Take the address of the process from this configuration file.',
  offers: 'files',
};

/** The address of the running process. */
export const serverFlags = { server, config } as const satisfies Flags;

/** Formats of an answer; `values` are those that a command has. */
export function outputFlag(...values: readonly string[]): CommandFlag {
  const shown = values.map((value) => (value.endsWith('=') ? `${value}TEMPLATE` : value));
  return {
    letter: 'o',
    shown: shown.join('|'),
    meaning: outputMeaning(values),
    values,
  };
}

function outputMeaning(values: readonly string[]): string {
  const parts = [
    values.includes('json') ? 'the whole answer as JSON (docs/api.md)' : '',
    values.includes('jsonpath=') ? 'fields of it by a template as kubectl does' : '',
    values.includes('wide') ? 'a table with more columns' : '',
    values.includes('name') ? 'names alone' : '',
  ].filter((part) => part !== '');
  return `Print ${parts.join(', or ')}.`;
}

/** Flags of every command that asks the process. */
export const answerOutputs = ['json', 'wide', 'jsonpath='] as const;

export const askFlags = {
  ...serverFlags,
  output: outputFlag(...answerOutputs),
  watch: {
    letter: 'w',
    shown: '',
    meaning: 'Ask every two seconds and print changes, until nothing reads the output.',
  },
} as const satisfies Flags;

/** Flags of commands about Services. */
export const namespaceFlags = {
  namespace: {
    letter: 'n',
    shown: 'NAMESPACE',
    meaning: 'Only this namespace (default all).',
    offers: 'namespaces',
  },
  'all-namespaces': {
    letter: 'A',
    shown: '',
    meaning: 'All namespaces, which is the default.',
  },
} as const satisfies Flags;

/** The duration in the value of a flag, in milliseconds. Throws a UsageError. */
export function durationMs(flag: string, text: string): number {
  const duration = parseDuration(text);
  if (!duration.ok) throw new UsageError(`--${flag}: ${duration.error}`);
  return toMs(duration.value);
}

export const noHeadersFlag = {
  'no-headers': { shown: '', meaning: 'Print tables without their headings.' },
} as const satisfies Flags;
