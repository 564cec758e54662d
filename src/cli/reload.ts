/** What a changed configuration file causes: nothing, a change while running, or the end. */
import { type ConfigChanges, configChanges } from '../config/changes.ts';
import type { Config, ModeName } from '../config/config.ts';
import { errorsOf, loadConfig } from '../config/load.ts';
import type { Logger } from '../serve/log.ts';
import type { ReloadResult } from '../serve/metrics.ts';
import type { Seen } from './config-file.ts';

interface ReloadOptions {
  /** The command line: it still determines what it determined at the start. */
  readonly args: readonly string[];
  /** The configuration in force. */
  readonly config: Config;
  readonly log: Logger;
  /** The mode that runs. */
  readonly mode: () => ModeName;
  /** Applies changes that are possible while running. */
  readonly apply: (config: Config) => Promise<void>;
  /** Ends the process, so that its supervisor starts a new one. */
  readonly restart: (reason: Error) => void;
  readonly counted: (result: ReloadResult) => void;
  /** Why the file is not in force; undefined: it is. */
  readonly refused: (reason: string | undefined) => void;
}

export class Reload {
  readonly #options: ReloadOptions;
  #config: Config;
  /** The previous content is handled before the next one. */
  #last: Promise<void> = Promise.resolve();

  constructor(options: ReloadOptions) {
    this.#options = options;
    this.#config = options.config;
  }

  /** The new content, or why it cannot be read. Never rejects: the configuration in force stays. */
  read(seen: Seen): Promise<void> {
    const next = async (): Promise<void> => this.#options.counted(await this.#read(seen));
    this.#last = this.#last.then(next);
    return this.#last;
  }

  async #read(seen: Seen): Promise<ReloadResult> {
    const { args, log, mode, refused } = this.#options;
    const readFile = (): Uint8Array => {
      if (seen instanceof Error) throw seen;
      return seen;
    };
    const result = loadConfig(args, { readFile });
    if (result.kind !== 'run') {
      const errors = result.kind === 'error' ? errorsOf(result) : [`asks for ${result.kind}`];
      const reason = errors.join('; ');
      const err = `${this.#config.configPath ?? 'configuration'}: ${reason}`;
      log.error({ err }, 'Invalid configuration file; keeping the current configuration');
      refused(`it is not valid, so that a restart would fail: ${reason}`);
      return 'invalid';
    }
    refused(undefined);
    for (const warning of result.warnings) log.warn({ err: warning }, 'Configuration warning');
    const changes = configChanges(this.#config, result.config, mode());
    if (changes.restart.length > 0) return this.#restart(changes);
    if (changes.live.length === 0) {
      this.#config = result.config;
      log.info('Reloaded configuration file; nothing changed');
      return 'unchanged';
    }
    return this.#apply(result.config, changes);
  }

  async #apply(config: Config, changes: ConfigChanges): Promise<ReloadResult> {
    const { log, apply, refused } = this.#options;
    try {
      await apply(config);
    } catch (error) {
      const { message } = error as Error;
      log.error(
        { fields: changes.live, err: message },
        'Could not apply the changed configuration',
      );
      refused(`it could not be applied: ${message}`);
      return 'invalid';
    }
    this.#config = config;
    log.info({ fields: changes.live }, 'Applied the changed configuration');
    return 'applied';
  }

  #restart({ live, restart }: ConfigChanges): ReloadResult {
    const fields = [...restart, ...live];
    this.#options.log.info({ fields, restart }, 'Configuration changed; restarting the process');
    // Supervisors and log readers know this from kube-proxy (behaviour document 1.4).
    const words = "content of the proxy server's configuration file was updated";
    this.#options.restart(new Error(words));
    return 'restart';
  }
}
