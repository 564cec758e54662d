/** Network namespaces that are nodes of one API server, which listens on 127.0.0.1 of its own. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Namespace } from './namespace.ts';

/** The API server's address as nodes have it; node N is 198.18.N.2. Services have 10.96.0.0/12. */
const apiAddress = '198.18.0.1';

export class NodesOfApi {
  readonly #api: Namespace;
  readonly #directory = mkdtempSync(join(tmpdir(), 'fairlead-bench-nodes-'));
  readonly #nodes: Namespace[] = [];
  /** For nodes; its server's certificate is still that of 127.0.0.1. */
  readonly kubeconfig = join(this.#directory, 'kubeconfig');

  /** `kubeconfig`: the path of one for clients in the namespace `api`. */
  constructor(api: Namespace, kubeconfig: string) {
    this.#api = api;
    const text = readFileSync(kubeconfig, 'utf8');
    const [, port] = /https:\/\/127\.0\.0\.1:([0-9]+)/.exec(text)!;
    const server = `"https://${apiAddress}:${port}","tls-server-name":"127.0.0.1"`;
    const replaced = text.replace(/"https:\/\/127\.0\.0\.1:[0-9]+"/, server);
    if (replaced === text) throw new Error(`${kubeconfig} has no server in JSON`);
    writeFileSync(this.kubeconfig, replaced);
    // No proxy runs in the API server's namespace, so that it has no other rules.
    api.run('sysctl', ['-qw', 'net.ipv4.conf.all.route_localnet=1']);
    api.run('ip', ['address', 'add', `${apiAddress}/32`, 'dev', 'lo']);
    const rule = `ip daddr ${apiAddress} tcp dport ${port} dnat to 127.0.0.1`;
    const chain = `chain arriving { type nat hook prerouting priority dstnat; ${rule}; }`;
    api.run('nft', ['-f', '-'], `table ip nodes { ${chain}; }`);
  }

  /** A node with a default route to the API server's namespace. */
  add(): Namespace {
    const number = this.#nodes.length + 1;
    const node = new Namespace(`node${number}`);
    this.#nodes.push(node);
    const peer = ['peer', 'name', 'api', 'netns', node.name];
    this.#api.run('ip', ['link', 'add', `node${number}`, 'type', 'veth', ...peer]);
    this.#api.run('ip', ['address', 'add', `198.18.${number}.1/30`, 'dev', `node${number}`]);
    this.#api.run('ip', ['link', 'set', `node${number}`, 'up']);
    node.run('ip', ['link', 'set', 'lo', 'up']);
    node.run('ip', ['address', 'add', `198.18.${number}.2/30`, 'dev', 'api']);
    node.run('ip', ['link', 'set', 'api', 'up']);
    node.run('ip', ['route', 'add', 'default', 'via', `198.18.${number}.1`]);
    return node;
  }

  close(): void {
    for (const node of this.#nodes) node.close();
    rmSync(this.#directory, { recursive: true });
  }
}
