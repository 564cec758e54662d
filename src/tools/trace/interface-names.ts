/** Names of interfaces by index: the kernel's events have indexes. */
import { readdirSync } from 'node:fs';
import type { HostFiles } from '../../host/files.ts';

const folder = '/sys/class/net';

/** An interface that no longer exists is shown by its index. */
export function interfaceNames(files: HostFiles): (index: number) => string {
  return (index) => {
    const isIt = (name: string): boolean =>
      files.read(`${folder}/${name}/ifindex`) === String(index);
    return readdirSync(folder).find(isIt) ?? `interface ${index}`;
  };
}
