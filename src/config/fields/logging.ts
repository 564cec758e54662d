import type { FieldTable } from './spec.ts';

const alpha = 'needs feature gate LoggingAlphaOptions';

export const loggingFields = {
  'logging.format': {
    type: 'string',
    default: 'text',
    rules: 'text or json',
    errorPath: 'format',
    meaning: 'How log lines look. Not given: text at a terminal, json elsewhere.',
  },
  'logging.flushFrequency': {
    type: 'nanoseconds',
    default: '5s',
    bounds: { kind: 'positive' },
    errorPath: 'flushFrequency',
    meaning: 'How long a log line may wait in a buffer. Checked, without effect: none waits.',
  },
  'logging.verbosity': {
    type: 'level',
    errorPath: 'verbosity',
    meaning: 'How much is logged; 0 is least, 2 tells of syncs, 4 of every Service that changes.',
  },
  'logging.vmodule': {
    type: 'vmodule',
    rules: 'format text only; file patterns without = and comma',
    errorPath: 'vmodule',
    meaning:
      'Other levels for files of kube-proxy: list of filePattern and verbosity. ' +
      'Checked, without effect.',
  },
  'logging.options.text.splitStream': {
    type: 'bool',
    rules: alpha,
    errorPath: 'options.text.splitStream',
    meaning: 'Format text: errors to stderr, the rest to stdout. Checked, without effect.',
  },
  'logging.options.text.infoBufferSize': {
    type: 'quantity',
    default: '0',
    rules: alpha,
    errorPath: 'options.text.infoBufferSize',
    meaning: 'Format text, split: how much of the rest may be buffered. Checked, without effect.',
  },
  'logging.options.json.splitStream': {
    type: 'bool',
    rules: alpha,
    errorPath: 'options.json.splitStream',
    meaning: 'Format json: errors to stderr, the rest to stdout. Checked, without effect.',
  },
  'logging.options.json.infoBufferSize': {
    type: 'quantity',
    default: '0',
    rules: alpha,
    errorPath: 'options.json.infoBufferSize',
    meaning: 'Format json, split: how much of the rest may be buffered. Checked, without effect.',
  },
} as const satisfies FieldTable;
