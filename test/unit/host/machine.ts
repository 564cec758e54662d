/** A machine's /proc and /sys in a directory, removed when the test ends. */
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { onTestFinished } from 'vitest';
import { type FolderFiles, type HostFiles, hostFiles } from '../../../src/host/files.ts';
import type { NodeFactsSettings } from '../../../src/host/node-facts.ts';
import { noLimits } from '../../../src/state/budget.ts';
import { address } from '../state/build.ts';

/** With these files; undefined = not there. */
export function machine(contents: Readonly<Record<string, string | undefined>>): HostFiles {
  return hostFiles(machineRoot(contents));
}

/** The same, for tests that look at the files themselves. */
export function machineRoot(contents: Readonly<Record<string, string | undefined>>): string {
  const root = mkdtempSync(join(tmpdir(), 'fairlead-machine-'));
  onTestFinished(() => rmSync(root, { recursive: true }));
  for (const [path, text] of Object.entries(contents)) {
    if (text === undefined) continue;
    mkdirSync(dirname(join(root, path)), { recursive: true });
    writeFileSync(join(root, path), text);
  }
  return root;
}

export function contentOf(root: string, path: string): string {
  return readFileSync(join(root, path), 'utf8');
}

/** The same in memory. */
export function filesOf(contents: Readonly<Record<string, string>>): FolderFiles {
  return {
    read: (path) => contents[path],
    list: (folder) => {
      const inside = Object.keys(contents).filter((path) => path.startsWith(`${folder}/`));
      return [...new Set(inside.map((path) => path.slice(folder.length + 1).split('/')[0]!))];
    },
  };
}

/** Where nothing is asked for. */
export const settings = {
  bindAddress: address('0.0.0.0'),
  clusterCIDR: [],
  nodePortAddresses: { kind: 'all' },
  featureGates: {},
  externalIPs: { cidrs: [], namespaces: [] },
  healthzBindAddress: undefined,
  metricsBindAddress: undefined,
  readBindAddress: undefined,
  serviceLimits: { ...noLimits, namespaceFactor: 1 },
  serviceProxyName: '',
  healthzNodeShutdown: false,
} as const satisfies NodeFactsSettings;
