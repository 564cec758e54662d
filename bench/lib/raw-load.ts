/** The raw netlink loop (bench/native/raw_load.cc), which measures the time of the kernel. */
import { execFileSync } from 'node:child_process';
import { join, resolve } from 'node:path';
import type { Size } from './cluster.ts';
import { inNamespace } from './namespace.ts';

const root = resolve(import.meta.dirname, '..', '..');

export interface RawTimes {
  readonly loadMs: number;
  readonly replace: { readonly p50: number; readonly p99: number };
  /** The time to add an endpoint to a Service, which changes its verdict, too. */
  readonly scale: { readonly p50: number; readonly p99: number };
  /** The time of one transaction with many endpoints, for each number that was asked for. */
  readonly atOnceMs: readonly number[];
}

interface RawSummary {
  readonly p50Us: number;
  readonly p99Us: number;
}

interface RawReport {
  readonly totalUs: number;
  readonly replace: RawSummary;
  readonly scale: RawSummary;
  readonly atOnceUs?: readonly number[];
}

let built = false;

/** The best of `runs` loads, each into a fresh namespace; milliseconds. */
export async function rawLoad(
  { services, endpoints }: Size,
  changes: number,
  runs: number,
  atOnce: readonly number[] = [],
): Promise<RawTimes> {
  if (!built) execFileSync('sh', [join(root, 'scripts', 'build-bench')]);
  built = true;
  const reports: RawReport[] = [];
  for (let i = 0; i < runs; i += 1) {
    const args = [services, endpoints, changes, ...atOnce].map(String);
    const report = await inNamespace('raw', (namespace) =>
      namespace.run(join(root, 'build', 'bench', 'raw_load'), args),
    );
    reports.push(JSON.parse(report) as RawReport);
  }
  const best = reports.reduce((a, b) => (a.totalUs < b.totalUs ? a : b));
  const inMs = ({ p50Us, p99Us }: RawSummary) => ({ p50: p50Us / 1000, p99: p99Us / 1000 });
  return {
    loadMs: best.totalUs / 1000,
    replace: inMs(best.replace),
    scale: inMs(best.scale),
    atOnceMs: (best.atOnceUs ?? []).map((us) => us / 1000),
  };
}
