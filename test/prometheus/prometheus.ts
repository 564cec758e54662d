/** A Prometheus that scrapes one address every half second, and answers queries. */
import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { hangsMs } from '../lab/pace.ts';
import { freePort } from '../unit/free-port.ts';

/** What a query came to. */
export interface Sample {
  readonly metric: Readonly<Record<string, string>>;
  readonly value: readonly [number, string];
}

export class Prometheus {
  readonly #folder: string;
  readonly #process: ChildProcess;
  readonly #url: string;

  private constructor(folder: string, process: ChildProcess, url: string) {
    this.#folder = folder;
    this.#process = process;
    this.#url = url;
  }

  /** Starts it, with these files of rules. */
  static async scraping(target: string, ruleFiles: readonly string[] = []): Promise<Prometheus> {
    const folder = mkdtempSync(join(tmpdir(), 'fairlead-prometheus-'));
    const file = join(folder, 'prometheus.yaml');
    const job = { job_name: 'kube-proxy', static_configs: [{ targets: [target] }] };
    const every = { scrape_interval: '500ms', evaluation_interval: '500ms' };
    writeFileSync(
      file,
      JSON.stringify({ global: every, rule_files: ruleFiles, scrape_configs: [job] }),
    );
    const address = `127.0.0.1:${await freePort()}`;
    const args = [
      `--config.file=${file}`,
      `--storage.tsdb.path=${join(folder, 'data')}`,
      `--web.listen-address=${address}`,
      '--log.level=warn',
    ];
    const process = spawn('prometheus', args, { stdio: ['ignore', 'inherit', 'inherit'] });
    return new Prometheus(folder, process, `http://${address}`);
  }

  async query(expr: string): Promise<readonly Sample[]> {
    const { data, error } = await this.#get(`/api/v1/query?query=${encodeURIComponent(expr)}`);
    if (error !== undefined) throw new Error(`${expr}: ${error}`);
    return (data as { result: Sample[] }).result;
  }

  /** Asks again while there is no result: a scrape that takes too long ends all series. */
  async drawn(expr: string): Promise<Sample | undefined> {
    const deadline = performance.now() + hangsMs;
    for (;;) {
      const [found] = await this.query(expr);
      if (found !== undefined || performance.now() >= deadline) return found;
      await sleep(200);
    }
  }

  /** Waits until it has this number of samples of this metric. */
  async has(metric: string, samples: number): Promise<void> {
    const deadline = performance.now() + hangsMs;
    while (performance.now() < deadline) {
      const [found] = await this.query(`count_over_time(${metric}[1m])`).catch(() => []);
      if (Number(found?.value[1]) >= samples) return;
      await sleep(200);
    }
    throw new Error(`Prometheus has no ${samples} samples of ${metric} after ${hangsMs} ms`);
  }

  /** Names of rules by what is wrong with them: empty where all could be evaluated. */
  async brokenRules(): Promise<Readonly<Record<string, string>>> {
    const { data } = await this.#get('/api/v1/rules');
    const { groups } = data as { groups: { rules: { name: string; lastError?: string }[] }[] };
    const broken = groups.flatMap(({ rules }) => rules).filter(({ lastError }) => lastError);
    return Object.fromEntries(broken.map(({ name, lastError }) => [name, lastError!]));
  }

  async stop(): Promise<void> {
    const ended = new Promise((resolve) => this.#process.once('exit', resolve));
    this.#process.kill('SIGKILL');
    await ended;
    rmSync(this.#folder, { recursive: true });
  }

  async #get(path: string): Promise<{ data?: unknown; error?: string }> {
    const response = await fetch(`${this.#url}${path}`);
    return (await response.json()) as { data?: unknown; error?: string };
  }
}
