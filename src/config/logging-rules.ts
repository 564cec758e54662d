/**
 * kube-proxy's rules for the logging section (behaviour document 2.8). They are checked before all
 * others and their paths have no prefix, because logging is set up first.
 */
import type { FieldPath, Settings } from './fields/index.ts';
import { quote } from './go-values.ts';
import { checkBounds, type Violation } from './validate.ts';

function violation(field: FieldPath, type: string, detail: string, suffix = ''): Violation {
  const path = `${field.replace('logging.', '')}${suffix}`;
  const text = `${path}: ${type}: ${detail}`;
  return { field, detail: `${type.replace('Invalid value: ', '')}: ${detail}`, text };
}

export function checkLogging(
  settings: Settings,
  gates: Readonly<Record<string, boolean>>,
): Violation[] {
  const format = settings['logging.format'];
  const result: Violation[] = [];
  if (format !== 'text' && format !== 'json') {
    const type = `Invalid value: ${quote(format)}`;
    result.push(violation('logging.format', type, 'Unsupported log format'));
  }
  if (format === 'json' && gates.LoggingBetaOptions !== true) {
    const detail = 'Log format json is disabled, see LoggingBetaOptions feature';
    result.push(violation('logging.format', 'Forbidden', detail));
  }
  for (const found of checkBounds(settings, 'logging.flushFrequency')) {
    result.push({ ...found, text: `flushFrequency: Invalid value: ${found.detail}` });
  }
  return [...result, ...checkVModule(settings), ...checkAlphaOptions(settings, gates)];
}

function checkVModule(settings: Settings): Violation[] {
  const field = 'logging.vmodule';
  const items = settings[field];
  const result: Violation[] = [];
  if (items.length > 0 && settings['logging.format'] !== 'text') {
    result.push(violation(field, 'Forbidden', 'Only supported for text log format'));
  }
  for (const [index, { filePattern }] of items.entries()) {
    const at = `[${index}]`;
    if (filePattern === '') {
      result.push(violation(field, 'Required value', 'File pattern must not be empty', at));
    }
    if (/[=,]/.test(filePattern)) {
      const detail = 'File pattern must not contain equal sign or comma';
      result.push(violation(field, `Invalid value: ${quote(filePattern)}`, detail, at));
    }
  }
  return result;
}

function checkAlphaOptions(
  settings: Settings,
  gates: Readonly<Record<string, boolean>>,
): Violation[] {
  if (gates.LoggingAlphaOptions === true) return [];
  const used: FieldPath[] = [];
  for (const format of ['text', 'json'] as const) {
    if (settings[`logging.options.${format}.splitStream`]) {
      used.push(`logging.options.${format}.splitStream`);
    }
    if (settings[`logging.options.${format}.infoBufferSize`].bytes !== 0) {
      used.push(`logging.options.${format}.infoBufferSize`);
    }
  }
  return used.map((field) =>
    violation(field, 'Forbidden', 'Feature LoggingAlphaOptions is disabled'),
  );
}
