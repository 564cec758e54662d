/**
 * Turns a command line into what the program should do (behaviour document 1.3 to 1.8). Pure: files
 * are read through `env`, and nothing is printed.
 */
import { buildConfig } from './build.ts';
import type { Config } from './config.ts';
import { decodeFile, type FileResult, type Locate, type UnreadableFile } from './file.ts';
import { type ParsedFlags, parseFlags } from './flags.ts';
import { resolveGates } from './gates.ts';
import { quote } from './go-values.ts';
import { flagsText } from './help.ts';
import {
  type FieldPath,
  flagOf,
  type GivenSettings,
  type Settings,
  settingTable,
} from './settings/index.ts';
import { formatProblem, type Problem, shorten, type TreeMap } from './tree.ts';
import { aggregate, checkHostname, checkLogging, type Violation, validate } from './validate.ts';
import {
  droppedFlags,
  flagFields,
  formatDocument,
  givenByFlags,
  settingsOfFlags,
  toDocument,
  withDefaults,
  withKeptFlags,
  withPlatformDefaults,
} from './values.ts';
import { fairleadLine, fairleadVersion, kubernetesLine, kubernetesVersion } from './version.ts';
import { placeholderIn } from './yaml.ts';

interface LoadEnvironment {
  /**
   * Returns the file's bytes, or the configuration that was found in it. Throws an error whose
   * message names the file.
   */
  readonly readFile: (path: string) => Uint8Array | TreeMap;
}

/** Lines that the program should log once logging works. */
type Warnings = readonly string[];

export type LoadResult =
  | { readonly kind: 'run'; readonly config: Config; readonly warnings: Warnings }
  /** Do the privileged set-up, then exit 0. */
  | { readonly kind: 'init-only'; readonly config: Config; readonly warnings: Warnings }
  /** Say what a start would write, then exit. */
  | { readonly kind: 'dry-run'; readonly config: Config; readonly warnings: Warnings }
  /** Remove the rules of every mode (or list them), then exit. */
  | {
      readonly kind: 'cleanup';
      readonly config: Config;
      readonly action: 'remove' | 'list';
      readonly warnings: Warnings;
    }
  /** Write `text` to `path`, then exit 0. */
  | {
      readonly kind: 'write-config';
      readonly path: string;
      readonly text: string;
      readonly warnings: Warnings;
    }
  /** `text` is for stdout, `note` for stderr. */
  | { readonly kind: 'print'; readonly text: string; readonly note: string; readonly exitCode: 0 }
  /** For stderr: `text` is all that is printed, and `message` sums up its first line. */
  | {
      readonly kind: 'error';
      readonly text: string;
      readonly message: string;
      /** The problems one by one; empty when `message` says it all. */
      readonly problems: readonly string[];
      /** Path of the configuration file; '' without a file. */
      readonly path: string;
      /** What would have been warned of otherwise. */
      readonly warnings: Warnings;
      /** 1: the configuration file cannot be used; 2: the command line cannot. */
      readonly exitCode: 1 | 2;
    };

export function loadConfig(argv: readonly string[], env: LoadEnvironment): LoadResult {
  const flags = parseFlags(argv);
  if (!flags.ok) {
    const failed = failure(flags.error, flags.hint === '' ? [] : [flags.hint], unconfigured);
    return { ...failed, text: `${failed.text}See 'fairlead run --help'\n` };
  }
  if (flags.value('--help')) return { kind: 'print', text: flagsText(), note: '', exitCode: 0 };
  const misuse = findMisuse(flags);
  if (misuse !== undefined)
    return failure(misuse, flags.words.length > 0 ? [wordHint] : [], unconfigured);
  const version = versionAsked(flags.value('--version'));
  if (version !== undefined) return { kind: 'print', ...version, exitCode: 0 };
  const source = readSettings(flags, env);
  if (!source.ok) return source.failure;
  return complete(flags, source);
}

function findMisuse(flags: ParsedFlags): string | undefined {
  if (flags.words.length > 0) {
    const words = flags.words.map(quote).join(' ');
    return `"fairlead" does not take any arguments, got [${words}]`;
  }
  if (flags.value('--dry-run') && flags.value('--init-only') && !flags.value('--cleanup')) {
    return '--dry-run is for a start or for --cleanup, not for --init-only';
  }
  return undefined;
}

/** For words behind flags: a command would be the first word. */
const wordHint = "commands come first: 'fairlead help' lists them";

/** Scripts take what follows `Kubernetes` on stdout for the version. */
function versionAsked(value: string): { readonly text: string; readonly note: string } | undefined {
  if (value === 'true') return { text: kubernetesLine, note: fairleadLine };
  if (value !== 'raw') return undefined;
  const [major = '', minor = ''] = kubernetesVersion.slice(1).split('.');
  const version = { major, minor, gitVersion: kubernetesVersion, fairleadVersion };
  return { text: `${JSON.stringify(version)}\n`, note: '' };
}

interface SettingsSource {
  readonly ok: true;
  readonly settings: Settings;
  readonly given: GivenSettings;
  readonly warnings: Warnings;
  /** Names a field for the operator: its place in the file, or the flag that set it. */
  readonly locate: Locate;
}

type Failure = Extract<LoadResult, { kind: 'error' }>;

/** What is wrong, one by one, without what kube-proxy writes before it. */
export function errorsOf({ message, problems }: Failure): readonly string[] {
  if (problems.length > 0) return problems;
  return [message.replace(/^failed complete: (?:failed to decode: )?/, '')];
}

function readSettings(
  flags: ParsedFlags,
  env: LoadEnvironment,
): SettingsSource | { readonly ok: false; readonly failure: Failure } {
  const path = flags.value('--config');
  if (path === '') {
    const given = givenByFlags(flags);
    const locate = (field: FieldPath) => ({ field: flagFor(field, flags) ?? field, line: 0 });
    return { ok: true, settings: settingsOfFlags(flags, given), given, warnings: [], locate };
  }
  const file = readConfigFile(path, env);
  if (!file.ok) {
    const problems = [...file.problems, ...problemsOfRest(flags, file)];
    const details = problems.length > 1 ? problems.map(formatProblem) : [];
    const context = { path, warnings: file.warnings };
    return { ok: false, failure: failure(`failed complete: ${file.text}`, details, context) };
  }
  const dropped = droppedFlags(flags).map((key) => `--${flagOf(key)}`);
  const warnings = [...file.warnings];
  if (dropped.length > 0) {
    warnings.push(`ignored, because --config is given: ${dropped.join(', ')}`);
  }
  return {
    ok: true,
    settings: withKeptFlags(withDefaults(file.given), flags),
    given: file.given,
    warnings,
    locate: file.locate,
  };
}

function readConfigFile(path: string, env: LoadEnvironment): FileResult {
  try {
    return decodeFile(env.readFile(path));
  } catch (error) {
    const text = `cannot be read: ${error instanceof Error ? error.message : String(error)}`;
    return { ok: false, text, problems: [], warnings: [] };
  }
}

/**
 * What is wrong with the fields that could be read. What another field in their section might have
 * caused by not being readable is left out, and everything where the mode or the gates are not.
 */
function problemsOfRest(flags: ParsedFlags, { problems, rest }: UnreadableFile): Problem[] {
  if (rest === undefined) return [];
  const unread = problems.map(({ field }) => sectionOf(field));
  if (unread.includes('mode') || unread.includes('featureGates')) return [];
  const settings = withDefaults(rest.given);
  const { stages } = check(flags, withKeptFlags(settings, flags));
  return stages
    .flatMap((stage) => stage.violations)
    .map(({ field, entry, detail }) => ({ ...rest.locate(field, entry), text: detail }))
    .filter(({ field }) => !unread.includes(sectionOf(field)));
}

/** `iptables` of `iptables.syncPeriod`; a field outside sections is its own. */
function sectionOf(field: string): string {
  return field.split(/[.[]/, 1)[0]!;
}

/** The flag on the command line that set the field. */
function flagFor(field: FieldPath, flags: ParsedFlags): string | undefined {
  const setter = flagFields(flags).find((one) => one.field === field);
  return setter && `--${flagOf(setter.flag)}`;
}

/** Everything after reading: platform defaults, node name, gates, all rules, and what to do. */
function complete(flags: ParsedFlags, source: SettingsSource): LoadResult {
  const { gates, settings, stages } = check(flags, source.settings);
  const warnings = [
    ...flags.warnings,
    ...source.warnings,
    ...gates.warnings,
    ...uselessFields(source.given, settings.mode),
  ];
  const failed = stages.find((stage) => stage.violations.length > 0);
  if (failed) {
    const message = `${failed.name}: ${aggregate(failed.violations.map(({ text }) => text))}`;
    const details = stages
      .flatMap((stage) => stage.violations)
      .map(({ field, entry, detail }) => {
        return formatProblem({ ...source.locate(field, entry), text: detail });
      })
      .map((text) => (placeholderIn(text) === undefined ? text : `${text}; ${templateHint}`));
    return failure(message, details, { path: flags.value('--config'), warnings });
  }
  const input = { settings, given: source.given, gates: gates.values, flags };
  const built = buildConfig(input);
  return decide(flags, settings, built.config, [...warnings, ...built.warnings]);
}

const templateHint = 'this looks like a template: render it first';

interface Stage {
  /** How kube-proxy begins the error line of this stage. */
  readonly name: string;
  readonly violations: readonly Violation[];
}

/** The settings with what the platform and the node's name add, and what is wrong with them. */
function check(flags: ParsedFlags, read: Settings) {
  const hostname = resolveHostname(flags, read);
  const settings = { ...withPlatformDefaults(read), hostnameOverride: hostname.value };
  const gates = resolveGates(settings.featureGates);
  const stages: readonly Stage[] = [
    { name: 'failed complete', violations: [...hostname.violations, ...gateErrors(gates.errors)] },
    { name: 'initialize logging', violations: checkLogging(settings, gates.values) },
    { name: 'failed validate', violations: validate(settings) },
  ];
  return { gates, settings, stages };
}

function resolveHostname(
  flags: ParsedFlags,
  settings: Settings,
): { readonly value: string; readonly violations: readonly Violation[] } {
  const flag = flags.value('hostnameOverride');
  if (flag !== '') return { value: flag, violations: checkHostname(flag, 'hostname-override') };
  const value = settings.hostnameOverride;
  return { value, violations: checkHostname(value) };
}

function gateErrors(errors: ReturnType<typeof resolveGates>['errors']): Violation[] {
  return errors.map(({ gate, text }) => {
    return { field: 'featureGates', entry: gate, detail: text, text };
  });
}

function decide(
  flags: ParsedFlags,
  settings: Settings,
  config: Config,
  warnings: Warnings,
): LoadResult {
  const path = flags.value('--write-config-to');
  if (path !== '') {
    return { kind: 'write-config', path, text: formatDocument(toDocument(settings)), warnings };
  }
  if (flags.value('--cleanup')) {
    const action = flags.value('--dry-run') ? 'list' : 'remove';
    return { kind: 'cleanup', config, action, warnings };
  }
  if (flags.value('--dry-run')) return { kind: 'dry-run', config, warnings };
  return { kind: flags.value('--init-only') ? 'init-only' : 'run', config, warnings };
}

/** Fields that are accepted and change nothing here. */
function uselessFields(given: GivenSettings, mode: string): string[] {
  return (Object.keys(given) as FieldPath[]).flatMap((field) => {
    const { origin } = settingTable[field];
    if (origin === 'windows') return [`${field} is for Windows nodes and has no effect here`];
    if (field === 'portRange') return [`${field} has no effect: no mode allocates proxy ports`];
    if (origin === 'older' && mode !== 'userspace') {
      return [`${field} only matters in mode userspace`];
    }
    return [];
  });
}

/** Characters of a line; values of a megabyte are quoted in it. */
const lineMax = 2000;

interface FailureContext {
  /** Path of the configuration file; '' without a file. */
  readonly path: string;
  readonly warnings: Warnings;
}

/** The context when flags could not be read. */
const unconfigured: FailureContext = { path: '', warnings: [] };

/** Formats the error as kube-proxy does, then each problem with its position on a separate line. */
function failure(
  text: string,
  details: readonly string[],
  { path, warnings }: FailureContext,
): Failure {
  const message = shorten(text, lineMax);
  const problems = [...new Set(details)].map((detail) => shorten(detail, lineMax));
  const lines = [...(path === '' ? [] : [`in ${path}`]), ...problems].map((line) => `  ${line}\n`);
  const output = `Error: ${message}\n${lines.join('')}`;
  const exitCode = path === '' ? 2 : 1;
  return { kind: 'error', text: output, message, problems, path, warnings, exitCode };
}
