/** kube-proxy, to compare with. You must provide its binary. */
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Namespace } from './namespace.ts';

/** Counts of observations of at most this number of seconds, in ascending order. */
type Buckets = readonly (readonly [seconds: number, count: number])[];

/** kube-proxy's own metric of the time from a change of endpoints to the kernel. */
export interface Programming {
  readonly count: number;
  /** Upper bounds of the histogram's bucket, in milliseconds: `quantile(0.99)`. */
  readonly quantileMs: (q: number) => number;
}

export class KubeProxy {
  readonly #namespace: Namespace;
  readonly #child: ChildProcess;
  #before: Buckets = [];

  constructor(
    binary: string,
    namespace: Namespace,
    kubeconfig: string,
    mode: 'nftables' | 'iptables' = 'nftables',
    contentType = 'application/json',
  ) {
    this.#namespace = namespace;
    const argv = [
      `--kubeconfig=${kubeconfig}`,
      `--kube-api-content-type=${contentType}`,
      `--proxy-mode=${mode}`,
      '--hostname-override=node-1',
      '--cluster-cidr=11.0.0.0/8',
      '--conntrack-max-per-core=0',
      '--conntrack-tcp-timeout-established=0s',
      '--conntrack-tcp-timeout-close-wait=0s',
      '-v=0',
    ];
    this.#child = spawn('ip', ['netns', 'exec', namespace.name, binary, ...argv], {
      stdio: 'ignore',
    });
  }

  get pid(): number {
    return this.#child.pid!;
  }

  /** Mode nftables: resolves when the rules for `services` Services are in the kernel. */
  async programmed(services: number): Promise<void> {
    for (let i = 0; i < 120; i += 1) {
      await sleep(500);
      if (this.#child.exitCode !== null) throw new Error('kube-proxy has ended');
      if (this.#elements() >= services) return;
    }
    throw new Error('kube-proxy has programmed nothing in a minute');
  }

  #elements(): number {
    const list = ['list', 'map', 'ip', 'kube-proxy', 'service-ips'];
    const argv = ['netns', 'exec', this.#namespace.name, 'nft', ...list];
    // nft fails as long as there is no such map.
    const { stdout } = spawnSync('ip', argv, { encoding: 'utf8', maxBuffer: 1 << 30 });
    return stdout.split(' : goto ').length - 1;
  }

  /** Later answers of `programming` count from here. */
  reset(): void {
    this.#before = this.#buckets();
  }

  programming(): Programming {
    const before = new Map(this.#before);
    const buckets = this.#buckets().map(
      ([seconds, count]) => [seconds, count - (before.get(seconds) ?? 0)] as const,
    );
    const count = buckets.at(-1)?.[1] ?? 0;
    const quantileMs = (q: number): number => {
      const bucket = buckets.find(([, atMost]) => atMost >= q * count);
      return 1000 * (bucket?.[0] ?? Number.POSITIVE_INFINITY);
    };
    return { count, quantileMs };
  }

  async stop(): Promise<void> {
    const ended = once(this.#child, 'exit');
    this.#child.kill('SIGTERM');
    await ended;
  }

  #buckets(): Buckets {
    const url = 'http://127.0.0.1:10249/metrics';
    const program = `fetch('${url}').then((r) => r.text()).then((t) => process.stdout.write(t))`;
    const text = this.#namespace.run(process.execPath, ['-e', program]);
    const name = 'kubeproxy_network_programming_duration_seconds_bucket';
    const lines = text.matchAll(new RegExp(`^${name}\\{[^}]*le="([^"]+)"\\} (\\S+)$`, 'gm'));
    return [...lines].map(([, le, count]) => [
      Number(le!.replace('+Inf', 'Infinity')),
      Number(count),
    ]);
  }
}
