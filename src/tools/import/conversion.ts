/** What an importer yields, and how it becomes a file: shared by all `config convert --from`. */
import { resolveGates } from '../../config/gates.ts';
import type { FieldPath, GivenSettings } from '../../config/settings/index.ts';
import { rulesOf } from '../../config/types.ts';
import { checkHostname, checkLogging, validate } from '../../config/validate.ts';
import {
  defaultSettings,
  formatDocument,
  meansDefault,
  settingsFrom,
  toSparseDocument,
  withDefaults,
  withPlatformDefaults,
} from '../../config/values.ts';

/** Collects fields, and what was done with every part of the input. */
export class Conversion {
  private readonly values = new Map<FieldPath, unknown>();
  readonly notes: string[] = [];
  readonly errors: string[] = [];
  #leftOut = 0;

  /** Takes a value over; `from` is its origin. */
  take(from: string, field: FieldPath, value: unknown): void {
    const rules = rulesOf(field);
    this.values.set(field, value);
    const shown = rules.format(value) === '' ? 'empty' : rules.format(value);
    this.note(from, `became ${field}: ${shown}`);
    const standard = rules.format(defaultSettings[field]);
    if (meansDefault(field, value) && standard !== rules.format(value)) {
      this.note(from, `a file cannot say ${shown} here: it means the default, ${standard}`);
    }
  }

  /** Takes a value over from a source where the zero value means the default, as in a file. */
  takeField(from: string, field: FieldPath, value: unknown): void {
    const { format } = rulesOf(field);
    if (!meansDefault(field, value)) this.take(from, field, value);
    else this.note(from, `${format(value)} means the default, ${format(defaultSettings[field])}`);
  }

  leaveOut(from: string, why: string): void {
    this.#leftOut += 1;
    this.note(from, `left out: ${why}`);
  }

  /** Something was left out, and nothing taken over. */
  get isEmptied(): boolean {
    return this.#leftOut > 0 && this.values.size === 0;
  }

  note(from: string, text: string): void {
    this.notes.push(`${from}: ${text}`);
  }

  fail(from: string, text: string): void {
    this.errors.push(`${from}: ${text}`);
  }

  given(): GivenSettings {
    return settingsFrom(this.values);
  }
}

/** The result of a subcommand: what goes to stdout, what to stderr, and the exit code. */
export interface CommandResult {
  readonly text: string;
  readonly notes: readonly string[];
  readonly exitCode: 0 | 1;
}

/** Checks what was collected and writes it as a file; any error means no file. */
export function finish(conversion: Conversion): CommandResult {
  const given = conversion.given();
  const settings = withPlatformDefaults(withDefaults(given));
  const gates = resolveGates(settings.featureGates);
  const nothing = conversion.isEmptied && conversion.errors.length === 0;
  const errors = [
    ...conversion.errors,
    ...(nothing ? ['file: nothing in it is a setting of the proxy'] : []),
    ...gates.errors.map(({ text }) => `featureGates: ${text}`),
    ...[
      ...checkHostname(settings.hostnameOverride),
      ...checkLogging(settings, gates.values),
      ...validate(settings),
    ].map(({ field, detail }) => `${field}: ${detail}`),
  ];
  if (errors.length > 0) {
    const notes = [...conversion.notes, ...errors.map((error) => `error: ${error}`)];
    return { text: '', notes, exitCode: 1 };
  }
  const text = formatDocument(toSparseDocument(given));
  return { text, notes: conversion.notes, exitCode: 0 };
}
